/** `init`, `config`, what `doctor` says about engines, and the pace of `demo`: what docs/install.md and docs/config.md promise. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ENGINES, Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

const userFile = () => join(box.home, ".config/reprise/config.toml");
function writeUser(text: string): void {
  mkdirSync(dirname(userFile()), { recursive: true });
  writeFileSync(userFile(), text);
}
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe("init", () => {
  test("writes settings and a runbook that pass their checks, and says what to type next", async () => {
    for (const engine of ENGINES) if (engine !== "codex") rmSync(join(box.bin, engine));
    const env = { PATH: `${box.bin}:${dirname(process.execPath)}:/usr/bin:/bin` };
    const { code, stdout } = await box.run(["init"], { env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/wrote +reprise\.toml\nwrote +runbooks\/worker\.toml\n/);
    expect(stdout).toContain("reprise runbook check");
    expect(readFileSync(join(box.cwd, "runbooks/worker.toml"), "utf8")).toContain('run = "codex');
    expect(await box.run(["config", "check"])).toMatchObject({ code: 0 });
    expect(await box.run(["runbook", "check"])).toMatchObject({ code: 0 });
    expect(mode(join(box.cwd, "reprise.toml"))).toBe("644");
  });

  test("never overwrites, and names the files that exist", async () => {
    writeFileSync(join(box.cwd, "reprise.toml"), "# mine\n");
    const result = await box.json(["init"]);
    expect(result).toMatchObject({
      ok: true,
      files: [
        { written: false, exists: join(box.cwd, "reprise.toml") },
        { written: true, exists: null },
      ],
    });
    expect((await box.run(["init"])).stdout).toContain("kept     runbooks/worker.toml (it exists");
    expect(readFileSync(join(box.cwd, "reprise.toml"), "utf8")).toBe("# mine\n");
  });

  test("writes nothing with --dry-run", async () => {
    expect((await box.run(["init", "--dry-run"])).stdout).toMatch(/would write +reprise\.toml/);
    expect(existsSync(join(box.cwd, "reprise.toml"))).toBe(false);
  });
});

describe("config", () => {
  test("path names the files that count", async () => {
    writeFileSync(join(box.cwd, "reprise.toml"), "");
    expect(await box.json(["config", "path"])).toMatchObject({
      ok: true,
      files: [
        { level: "user", path: userFile(), exists: false },
        { level: "project", path: join(box.cwd, "reprise.toml"), exists: true },
      ],
    });
  });

  test("check reports every mistake of both files with its place", async () => {
    writeUser('timeout = 5\n[engines.codex]\nprogramm = "x"\n');
    writeFileSync(join(box.cwd, "reprise.toml"), "escrow = 1\nescrow = 2\n");
    const { code, stdout } = await box.run(["config", "check"]);
    expect(code).toBe(2);
    expect(stdout.split("\n")).toEqual([
      expect.stringContaining(`${userFile()}:1:1: timeout is a duration in quotes`),
      expect.stringContaining(`${userFile()}:3:1: engines.codex.programm is unknown`),
      expect.stringContaining(`${join(box.cwd, "reprise.toml")}:2:`),
      "",
    ]);
    expect(await box.json(["config", "check"])).toMatchObject({
      ok: false,
      error: { code: "config_invalid" },
      problems: [{ line: 1 }, { line: 3 }, { line: 2 }],
    });
  });

  test("get prints the effective value and its file, without secrets", async () => {
    writeUser('timeout = "1h"\n[engines.codex]\nargs = ["-a"]\nenv = { API_TOKEN = "s3cret-word" }\n');
    writeFileSync(join(box.cwd, "reprise.toml"), 'timeout = "2h"\n');
    const project = join(box.cwd, "reprise.toml");
    expect(await box.json(["config", "get", "timeout"])).toMatchObject({ value: "2h", from: [project] });
    expect(await box.json(["config", "get", "escrow"])).toMatchObject({ value: 256, from: [] });
    const shown = await box.run(["config", "get", "engines.codex"]);
    expect(shown.stdout).toBe('{"args":["-a"],"env":{"API_TOKEN":"[redacted]"}}\n');
    expect(shown.stderr).toContain(userFile());
    expect(await box.run(["config", "get", "timout"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Did you mean timeout?"),
    });
  });

  test("get leaves out a project's file that the user has not trusted", async () => {
    writeFileSync(join(box.cwd, "reprise.toml"), 'timeout = "2h"\n[engines.codex]\nargs = ["-a"]\n');
    const { code, stderr } = await box.run(["config", "get", "timeout"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("you have not trusted it") });
  });

  test("set changes one key and keeps comments, links and private modes", async () => {
    const dotfiles = join(box.home, "dotfiles.toml");
    writeFileSync(dotfiles, "# mine\nescrow = 1 # MB\n");
    mkdirSync(dirname(userFile()), { recursive: true });
    symlinkSync(dotfiles, userFile());
    expect(await box.run(["config", "set", "escrow", "2"])).toMatchObject({ code: 0 });
    expect(await box.run(["config", "set", "engines.codex.args", '["-m", "x"]'])).toMatchObject({ code: 0 });
    expect(readFileSync(dotfiles, "utf8")).toBe(
      '# mine\nescrow = 2 # MB\n\n[engines.codex]\nargs = ["-m", "x"]\n',
    );
    expect(mode(dotfiles)).toBe("600");
  });

  test.each([
    [["timeout", "5 parsecs"], "is a duration in quotes"],
    [["idle_timeot", "1s"], "idle_timeot is unknown"],
    [["engines.codex.args", "lab"], "engines.codex.args"],
    [["a..b", "1"], "is not a config key"],
  ])("set refuses %j and changes nothing", async (words, why) => {
    writeUser("escrow = 1\n");
    expect(await box.run(["config", "set", ...words])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(why),
    });
    expect(readFileSync(userFile(), "utf8")).toBe("escrow = 1\n");
  });

  test("set --project refuses a key that only the user may set", async () => {
    const result = await box.run(["config", "set", "--project", "notify.webhook", "https://a.example/x"]);
    expect(result).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("not allowed in a project's file"),
    });
    expect(existsSync(join(box.cwd, "reprise.toml"))).toBe(false);
  });

  test("edit runs the editor without a shell and checks the result", async () => {
    const editor = box.program("my editor", 'printf "%s\\n" "$1" "escro = 1" > "$2"');
    const wrong = await box.run(["config", "edit"], { env: { EDITOR: `'${editor}' '# $(touch x)'` } });
    expect(wrong).toMatchObject({
      code: 2,
      stdout: expect.stringContaining(`${userFile()}:2:1: escro is unknown`),
    });
    expect(readFileSync(userFile(), "utf8")).toBe("# $(touch x)\nescro = 1\n");
    expect(
      await box.run(["config", "edit"], { env: { VISUAL: `truncate -s 0`, EDITOR: "false" } }),
    ).toMatchObject({ code: 0 });
    expect(await box.run(["config", "edit"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Which editor?"),
    });
  });
});

describe("doctor", () => {
  test("says per engine whether it is logged in, and its last completed run", async () => {
    mkdirSync(join(box.home, ".codex"));
    writeFileSync(join(box.home, ".codex/auth.json"), '{"token":"s3cret-word"}');
    const { handle } = await box.json(["start", "codex", "hello"]);
    const { engines } = await box.json(["doctor"]);
    const byId = (id: string) => (engines as Record<string, any>[]).find((one) => one["id"] === id);
    expect(byId("codex")).toMatchObject({
      login: "yes",
      lastCompleted: { handle, at: expect.stringMatching(/Z$/) },
    });
    expect(byId("claude")).toMatchObject({ login: "no", lastCompleted: null });
    expect(byId("opencode")).toMatchObject({ login: "unknown" });
    const { stdout } = await box.run(["doctor"]);
    expect(stdout).toMatch(new RegExp(`codex .*logged in, completed ${handle} .* ago`));
    expect(stdout).not.toContain("s3cret");
  });

  test("asks an engine for its version once, until its program changes", async () => {
    const asked = join(box.root, "asked");
    const script = (version: string) => `echo x >> '${asked}'; echo ${version}`;
    box.program("codex", script("0.100.0"));
    const version = async () => {
      const { engines } = await box.json(["doctor"]);
      return (engines as Record<string, any>[]).find((one) => one["id"] === "codex")?.["version"];
    };
    expect([await version(), await version()]).toEqual(["0.100.0", "0.100.0"]);
    expect(readFileSync(asked, "utf8")).toBe("x\n");
    rmSync(join(box.bin, "codex"));
    box.program("codex", `# another file\n${script("0.101.0")}`);
    expect(await version()).toBe("0.101.0");
    expect(mode(join(box.state, "versions.json"))).toBe("600");
  });
});

test("demo ends with commands to try, and --fast does not wait for a reader", async () => {
  const { code, stdout } = await box.run(["demo", "--fast"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/it still knows 4711\.\nTry next:\n {2}reprise show [0-9a-f]{8} /);
  const { stdout: help } = await box.run(["demo", "--help"]);
  expect(help).toContain("--fast");
});
