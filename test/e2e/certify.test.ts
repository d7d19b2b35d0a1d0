/** `doctor --certify` as `docs/cli.md` describes it, on programs that are no engines; the real ones are in `conformance/`. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "./sandbox.ts";

/** What a user has, and no engine that is tried may see or change. */
const CANARY = "canary-4711";
const USERS = {
  ANTHROPIC_API_KEY: CANARY,
  OPENAI_API_KEY: CANARY,
  GEMINI_API_KEY: CANARY,
  CODEX_HOME: `/nowhere/${CANARY}`,
  CLAUDE_CONFIG_DIR: `/nowhere/${CANARY}`,
  XDG_CONFIG_HOME: undefined,
  XDG_DATA_HOME: `/nowhere/${CANARY}`,
  HTTPS_PROXY: `http://${CANARY}.invalid`,
  NODE_OPTIONS: "--no-deprecation",
};

class Clinic extends Sandbox {
  readonly tmp = join(this.root, "tmp");
  /** Every start of an engine writes its environment here. */
  readonly seen = join(this.root, "seen");

  constructor() {
    super();
    for (const folder of [this.tmp, this.seen, join(this.home, ".codex")])
      mkdirSync(folder, { recursive: true });
    writeFileSync(join(this.home, ".codex", "auth.json"), CANARY);
  }

  override env(extra: Record<string, string | undefined> = {}): NodeJS.ProcessEnv {
    return { ...super.env(), ...USERS, TMPDIR: this.tmp, ...extra };
  }

  /** A program that notes what it is given before it does the rest. */
  engine(name: string, script: string): string {
    return this.program(name, `env > '${this.seen}'/$$\necho "args: $*" >> '${this.seen}'/$$\n${script}`);
  }

  starts(): readonly string[] {
    return readdirSync(this.seen).map((name) => readFileSync(join(this.seen, name), "utf8"));
  }
}

function isAlive(pid: string): boolean {
  const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, "utf8") : "";
  return stat !== "" && !/\) [ZX] /.test(stat);
}

const REFUSES = `[ "$1" = --version ] && { echo "codex-cli 9.9.9"; exit 0; }
echo "error: unexpected argument '--json' found" >&2
exit 2`;

test("certify names the refused flag, and touches nothing of the user's", async () => {
  using box = new Clinic();
  const program = box.engine("codex", REFUSES);
  const { code, stdout, stderr } = await box.run(["doctor", "--certify", "codex"]);
  expect(code).toBe(1);
  const [head, columns, first, second, ...rest] = stdout.split("\n");
  expect(head).toBe(`codex 9.9.9  ${program}`);
  expect(columns).toMatch(/^ {2}CHECK +RESULT +WHAT BROKE$/);
  expect(first).toMatch(
    /^ {2}a start names its session, and a resume continues it +broke +codex refused its command line: error: unexpected argument '--json' found; /,
  );
  expect(second).toMatch(/not checked +it begins with a start, and that does not work$/);
  expect(rest.join("\n")).toContain("1 check broke");
  expect(stderr).toContain("reprise: codex: a start names its session, and a resume continues it: broke");
  const starts = box.starts();
  expect(starts.length).toBeGreaterThan(1);
  for (const start of starts) {
    expect(start).not.toContain(CANARY);
    expect(start).not.toContain(box.home);
    expect(start).not.toContain(box.state);
    expect(start).toMatch(/^HOME=.*\/tmp\/certify-\w+\/.*\/home$/m);
  }
  expect(readdirSync(box.home, { recursive: true }).toSorted()).toEqual([".codex", ".codex/auth.json"]);
  expect(box.runDirectories()).toEqual([]);
  expect(readdirSync(box.tmp)).toEqual([]);
});

test("certify --json prints one object", async () => {
  using box = new Clinic();
  const program = box.engine("codex", REFUSES);
  const { code, stdout, stderr } = await box.run(["doctor", "--certify", "codex", "--json"]);
  expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  const { engines, ...rest } = JSON.parse(stdout) as Record<string, any>;
  expect(rest).toEqual({
    ok: false,
    version: expect.any(String),
    network: expect.stringMatching(/^(own network namespace, loopback only|refusing proxy)$/),
  });
  expect(engines).toMatchObject([{ engine: "codex", program, version: "9.9.9", reason: null }]);
  const [first, ...others] = engines[0].checks;
  expect(first).toEqual({
    engine: "codex",
    check: "a start names its session, and a resume continues it",
    result: "broke",
    why: expect.stringContaining("refused its command line"),
    evidence: expect.arrayContaining([
      expect.stringMatching(/^codex exec .*--json/),
      "codex ended with exit code 2",
      "stderr: error: unexpected argument '--json' found",
    ]),
    ms: expect.any(Number),
  });
  expect(others.length).toBeGreaterThanOrEqual(7);
});

test("without namespaces a refusing proxy replaces the network, and certify says so", async () => {
  using box = new Clinic();
  box.engine("codex", REFUSES);
  box.program("unshare", "exit 1");
  const { stdout } = await box.run(["doctor", "--certify", "codex"]);
  expect(stdout).toContain("network: refusing proxy");
  for (const start of box.starts()) expect(start).toMatch(/^HTTPS_PROXY=http:\/\/127\.0\.0\.1:\d+/m);
});

test("a program without a version is reported at once, and nothing of it is left", async () => {
  using box = new Clinic();
  const pids = join(box.root, "pids");
  // The first child keeps the pipes of its parent, the second has no environment by which it could be found.
  box.engine("codex", `sleep 1000 &\necho $! >> '${pids}'\nenv -i sleep 1000 &\necho $! >> '${pids}'\nwait`);
  const { code, stdout, stderr } = await box.run(["doctor", "--certify", "codex"]);
  expect(code).toBe(1);
  const [head, , first, ...others] = stdout.trimEnd().split("\n");
  expect(head).toMatch(/^codex of unknown version /);
  expect(first).toMatch(/ broke +codex does not answer --version within 10 s$/);
  expect(others.slice(0, -2).length).toBeGreaterThanOrEqual(8);
  for (const line of others.slice(0, -2))
    expect(line).toMatch(/ not checked +(codex does not answer --version|the same)$/);
  expect(stderr).toMatch(
    /^reprise: testing with a separate home and a scripted model\nreprise: codex of unknown version: \d+ checks\n/,
  );
  expect(box.starts()).toHaveLength(1);
  expect(readdirSync(box.tmp)).toEqual([]);
  expect(readFileSync(pids, "utf8").trim().split("\n").filter(isAlive)).toEqual([]);
});

test("a program that fails at once is reported with its exit code, and its missing output does not count as understood", async () => {
  using box = new Clinic();
  box.engine("codex", `[ "$1" = --version ] && { echo "codex-cli 9.9.9"; exit 0; }\nexit 3`);
  const { code, stdout } = await box.run(["doctor", "--certify", "codex"]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^ {2}a start names .* broke .*codex ended with exit code 3/m);
  expect(stdout).toMatch(
    /^ {2}Reprise understands every kind of output line +not checked +it printed no line$/m,
  );
});

test("a flood of unknown lines is one line of the table", async () => {
  using box = new Clinic();
  box.engine(
    "codex",
    `[ "$1" = --version ] && { echo "codex-cli 9.9.9"; exit 0; }\nyes '{"type":"flood"}' | head -n 400000\nexit 1`,
  );
  const { code, stdout, stderr } = await box.run(["doctor", "--certify", "codex"]);
  expect({ code, trace: stderr.includes("Error") }).toEqual({ code: 1, trace: false });
  const text = 'codex printed a kind of line that Reprise does not know (flood): {"type":"flood"}';
  expect(stdout).toContain(`broke        ${text}; `);
  expect(stdout).toContain(`every kind of output line           new          ${text}\n`);
});

test.each([
  ["is not there", "nowhere"],
  ["is a file", "project/file"],
])("a temporary folder that %s is reported in one line", async (_name, path) => {
  using box = new Clinic();
  box.engine("codex", REFUSES);
  writeFileSync(join(box.cwd, "file"), "");
  const TMPDIR = join(box.root, path);
  const { code, stdout, stderr } = await box.run(["doctor", "--certify", "codex"], { env: { TMPDIR } });
  expect({ code, stdout }).toEqual({ code: 7, stdout: "" });
  expect(stderr).toMatch(
    /^reprise: Nothing could be checked: the temporary folder .* cannot be written to \(E\w+\)\. Set TMPDIR .*\n$/,
  );
  expect(stderr).toContain(TMPDIR);
});

test("an engine's output cannot move the cursor", async () => {
  using box = new Clinic();
  box.engine("codex", `printf 'error: unknown option \\033]0;title\\007\\033[2J\\n' >&2; exit 2`);
  const { stdout, stderr } = await box.run(["doctor", "--certify", "codex"]);
  expect(stdout).toContain("refused its command line: error: unknown option");
  expect(stdout + stderr).not.toMatch(/[\x1b\x07]/);
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s ends everything and removes the folder", async (name, expected) => {
  using box = new Clinic();
  const pids = join(box.root, "pids");
  box.engine(
    "codex",
    `[ "$1" = --version ] && exit 0\necho $$ >> '${pids}'\ntrap '' INT TERM\nwhile :; do sleep 1; done`,
  );
  const child = box.spawn(["doctor", "--certify", "codex"]);
  const done = collect(child);
  await until("the engine hangs", () => existsSync(pids));
  expect(readdirSync(box.tmp)).toHaveLength(1);
  child.kill(name);
  expect((await done).code).toBe(expected);
  expect(readdirSync(box.tmp)).toEqual([]);
  const alive = readFileSync(pids, "utf8")
    .trim()
    .split("\n")
    .filter((pid) => isAlive(pid));
  expect(alive).toEqual([]);
});

test("a killed certify takes the engine and the folder along", async () => {
  using box = new Clinic();
  const pids = join(box.root, "pids");
  box.engine("codex", `[ "$1" = --version ] && exit 0\necho $$ >> '${pids}'\nexec sleep 600`);
  const child = box.spawn(["doctor", "--certify", "codex"]);
  const done = collect(child);
  await until("the engine hangs", () => existsSync(pids) && readFileSync(pids, "utf8").endsWith("\n"));
  child.kill("SIGKILL");
  await done;
  await until("the folder is gone", () => readdirSync(box.tmp).length === 0);
  expect(isAlive(readFileSync(pids, "utf8").trim())).toBe(false);
});

const CONFIG = `[engines.gemini]
program = "/nowhere/gemini"
[engines.mine]
program = "mine"
start = ["{options}"]
resume = ["{options}", "{session}"]
session = { field = "session_id", format = "uuid" }
events = { session = "type=init", text = "type=message : text", done = "type=result" }
`;

test.each([
  [["--certify", "codxe"], 2, 'reprise: "codxe" is not an engine. Did you mean codex?'],
  [["--certify", "iflow"], 6, "its package is no longer published"],
  [["--certify", "demo"], 6, "it comes with Reprise"],
  [["--certify", "mine"], 6, "it is an engine of your config"],
  [["--certify", "gemini"], 6, 'Gemini CLI cannot be run: "/nowhere/gemini" is not an executable program'],
  [["--certify", "codex", "claude"], 2, "Too many arguments"],
  [["--certify", "--rebuild-index"], 2, "Give --rebuild-index or --certify, not both"],
  [["codex"], 2, "reprise doctor --certify codex"],
])("certify refuses %j", async (args, expected, text) => {
  using box = new Clinic();
  box.engine("codex", REFUSES);
  mkdirSync(join(box.home, ".config", "reprise"), { recursive: true });
  writeFileSync(join(box.home, ".config", "reprise", "config.toml"), CONFIG);
  const { code, stderr, stdout } = await box.run(["doctor", ...args]);
  expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
  expect(stderr).toContain(text);
  expect(box.starts()).toEqual([]);
});

test("without a name certify checks every installed engine, with the program that a start would use", async () => {
  using box = new Clinic();
  const program = box.engine("another-codex", REFUSES);
  mkdirSync(join(box.home, ".config", "reprise"), { recursive: true });
  const nowhere = ["claude", "gemini", "opencode"].map(
    (id) => `[engines.${id}]\nprogram = "/nowhere/${id}"\n`,
  );
  writeFileSync(
    join(box.home, ".config", "reprise", "config.toml"),
    `[engines.codex]\nprogram = ${JSON.stringify(program)}\n${nowhere.join("")}`,
  );
  const { engines } = await box.json(["doctor", "--certify"]);
  const told = (engines as Record<string, any>[]).map(({ engine, program: file, reason }) => [
    engine,
    file,
    reason,
  ]);
  expect(told).toEqual([
    ["codex", program, null],
    ["claude", null, "not installed"],
    ["gemini", null, "not installed"],
    ["iflow", null, expect.stringContaining("no longer published")],
    ["opencode", null, "not installed"],
    ["demo", null, expect.stringContaining("comes with Reprise")],
  ]);
});
