/** What the agent wrote is on the tape, byte for byte and apart by stream, and reaches a pipe untouched. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, collect, Sandbox, until } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const ARTEFACTS = ["events.jsonl", "meta.json", "pty-output.log", "stderr.log", "stdout.log", "timing.jsonl"];

function tape(runDirectory: string, file: string): Buffer {
  return readFileSync(join(runDirectory, "attempts/1", file));
}

function sha256(bytes: string | Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function sha256File(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** The run that one start made. */
async function startedBy(
  args: readonly string[],
): Promise<{ stdout: Buffer; stderr: Buffer; code: number | null; directory: string }> {
  const known = new Set(box.runDirectories());
  const child = box.spawn(args);
  child.stdin?.end();
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
  child.stdout?.on("data", (chunk: Buffer) => stdout.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => stderr.push(chunk));
  const code = await new Promise<number | null>((done) => child.on("close", done));
  const directory = box.runDirectories().find((one) => !known.has(one)) ?? "";
  return { stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr), code, directory };
}

describe("exact bytes of a program that writes two known files", () => {
  /** Every byte value, CRLF, a lone CR, invalid UTF-8, half a character at the end, no newline at the end. */
  const out = Buffer.concat([
    Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
    Buffer.from('\r\n{"type":"session"\r\nlone\rcr\n\n'),
    Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x0a, 0xe2, 0x82]),
  ]);
  const err = Buffer.from("on stderr \u001b[31mred\u001b[0m\r\nthe end, without a newline");

  const modes: [
    mode: string,
    name: string,
    stty: string,
    terminals: string,
    seen: (bytes: Buffer) => Buffer,
  ][] = [
    ["pipe", "", "", "", (bytes) => bytes],
    // A terminal in its usual mode makes CR LF of LF, for the agent and so for its tape.
    [
      "pty",
      "",
      "",
      "1 2 ",
      (bytes) => Buffer.from(bytes.toString("latin1").replaceAll("\n", "\r\n"), "latin1"),
    ],
    ["pty", "raw", "stty -opost <&1; stty -opost <&2; ", "1 2 ", (bytes) => bytes],
  ];
  test.each(modes)("%s %s", async (mode, _name, stty, terminals, seen) => {
    const [outFile, errFile] = [join(box.root, "out.bin"), join(box.root, "err.bin")];
    writeFileSync(outFile, out);
    writeFileSync(errFile, err);
    const which = 'for fd in 1 2; do [ -t $fd ] && printf "$fd " >> "$SEEN"; done; ';
    box.program("exact", `cat >/dev/null; ${which}${stty}cat '${outFile}'; cat '${errFile}' >&2`);
    writeFileSync(join(box.root, "seen"), "");
    const config = join(box.root, "config/reprise");
    mkdirSync(config, { recursive: true });
    writeFileSync(
      join(config, "config.toml"),
      `[engines.exact]\nprogram = "exact"\nstart = []\nresume = ["{session}"]\n` +
        `session = { field = "id", format = "uuid" }\nevents = { session = "type=x", done = "type=y" }\n`,
    );
    const started = await box.json(["start", "exact", "go", "--mode", mode], {
      env: { XDG_CONFIG_HOME: join(box.root, "config"), SEEN: join(box.root, "seen") },
    });
    const directory = started["runDirectory"];
    expect(readFileSync(join(box.root, "seen"), "utf8")).toBe(terminals);
    expect(tape(directory, "stdout.log").toString("latin1")).toBe(seen(out).toString("latin1"));
    expect(tape(directory, "stderr.log").toString("latin1")).toBe(seen(err).toString("latin1"));
    // Merged in order of arrival: nothing more, nothing less.
    const merged = tape(directory, "pty-output.log");
    expect(merged.length).toBe(seen(out).length + seen(err).length);
    expect([seen(out), seen(err)].every((part) => merged.includes(part))).toBe(true);
    const { history } = await box.json(["show", started["handle"]]);
    expect(history[0].bytes).toEqual({ stdout: seen(out).length, stderr: seen(err).length });
  });
});

describe("the output in a pipe", () => {
  test.each(["pipe", "pty"])(
    "%s: stdout is the tape of stdout, stderr that of stderr and a summary",
    async (mode) => {
      const words = "hello @@crlf @@badutf8 @@osc @@split @@stderr:oops";
      const { stdout, stderr, code, directory } = await startedBy(["start", "demo", words, "--mode", mode]);
      expect(code).toBe(0);
      expect(stdout.equals(tape(directory, "stdout.log"))).toBe(true);
      expect(stdout.includes(Buffer.from([0xff, 0xfe, 0xc3, 0x28]))).toBe(true);
      const native = tape(directory, "stderr.log");
      expect(native.includes("oops")).toBe(true);
      expect(stderr.subarray(0, native.length).equals(native)).toBe(true);
      const summary = stderr.subarray(native.length).toString().trimEnd().split("\n");
      expect(summary.slice(-3)).toEqual([
        expect.stringMatching(/^handle {3}[0-9a-f]{8} /),
        `run      ${directory}`,
        expect.stringMatching(/^session {2}session_id [0-9a-f-]{36}$/),
      ]);
      const { session, history } = await box.json(["show", directory.slice(-8)]);
      // Split across two chunks, ended by CR LF: the id is seen all the same.
      expect(session).toMatchObject({
        field: "session_id",
        value: expect.any(String),
        source: mode === "pty" ? "pty-output" : "stdout",
      });
      expect(history[0]).toMatchObject({ mode, outcome: { result: "completed" } });
      const start = box.journalEntries().findLast((entry) => entry["event"] === "start");
      expect(start?.["terminals"]).toEqual(mode === "pty" ? [1, 2] : []);
    },
  );

  test("is one object with --json, and nothing from Reprise with --quiet", async () => {
    const object = await box.run(["start", "demo", "hello @@stderr:oops @@forge", "--json"]);
    expect(object.stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(object.stdout)).toMatchObject({ ok: true, exitCode: 0 });
    const quiet = await box.run(["start", "demo", "hello @@stderr:oops", "--quiet"]);
    expect(quiet).toMatchObject({ code: 0, stdout: "", stderr: "" });
    const failed = await box.run(["start", "demo", "hello @@exit:3", "--json", "--quiet"]);
    expect(failed).toMatchObject({ code: 1, stderr: "" });
    expect(JSON.parse(failed.stdout)).toMatchObject({ ok: false, nativeExit: { code: 3 } });
  });

  test("may lose its reader without harm to the run", async () => {
    const known = new Set(box.runDirectories());
    const command = `'${process.execPath}' '${CLI}' start demo 'hello @@flood:3000000' | head -1`;
    const piped = spawn("bash", ["-o", "pipefail", "-c", command], { cwd: box.cwd, env: box.env() });
    const result = await collect(piped);
    expect(result.stdout.split("\n")).toHaveLength(2);
    expect(result.stderr).not.toMatch(/EPIPE|\n\s+at |this is a bug/);
    expect(result.code).toBe(0);
    const directory = box.runDirectories().find((one) => !known.has(one)) ?? "";
    expect(tape(directory, "stdout.log").toString()).toMatch(/"turn\.ended","result":"completed"\}\n$/);
    expect(await box.json(["show", directory.slice(-8)])).toMatchObject({ status: "completed" });
  });

  test("may lose both readers", async () => {
    const child = box.spawn(["start", "demo", "hello @@wait:300 @@flood:200000"]);
    child.stdin?.end();
    child.stdout?.destroy();
    child.stderr?.destroy();
    const code = await new Promise((done) => child.on("exit", done));
    expect(code).toBe(0);
  });
});

describe("unusual amounts", () => {
  /** Runs a start, hashing what it prints, and watches how much memory it takes. */
  async function watched(
    args: readonly string[],
  ): Promise<{ hash: string; bytes: number; peak: number; directory: string }> {
    const known = new Set(box.runDirectories());
    const child = box.spawn(args);
    child.stdin?.end();
    child.stderr?.resume();
    const hash = createHash("sha256");
    let [bytes, peak] = [0, 0];
    child.stdout?.on("data", (chunk: Buffer) => {
      hash.update(chunk);
      bytes += chunk.length;
    });
    const sampling = setInterval(() => {
      const status = existsSync(`/proc/${child.pid}/status`)
        ? readFileSync(`/proc/${child.pid}/status`, "utf8")
        : "";
      peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    }, 20);
    await new Promise((done) => child.on("close", done));
    clearInterval(sampling);
    const directory = box.runDirectories().find((one) => !known.has(one)) ?? "";
    return { hash: hash.digest("hex"), bytes, peak, directory };
  }

  test.each([
    ["pipe", 200_000_000],
    ["pty", 50_000_000],
  ])("%s: a line of %d bytes is captured whole in little memory", async (mode, size) => {
    const seen = await watched(["start", "demo", `hello @@line:${size}`, "--mode", mode]);
    const path = join(seen.directory, "attempts/1/stdout.log");
    expect(seen.bytes).toBe(statSync(path).size);
    expect(seen.bytes).toBeGreaterThan(size);
    expect(await sha256File(path)).toBe(seen.hash);
    expect(seen.peak).toBeGreaterThan(20);
    expect(seen.peak).toBeLessThanOrEqual(150);
    const record = await box.json(["show", seen.directory.slice(-8)]);
    expect(record).toMatchObject({ status: "completed", session: { field: "session_id" } });
    rmSync(join(seen.directory, "attempts/1"), { recursive: true });
  });

  test("a flood is captured whole", async () => {
    const seen = await watched(["start", "demo", "hello @@flood:20000000 @@burst:2000"]);
    expect(await sha256File(join(seen.directory, "attempts/1/stdout.log"))).toBe(seen.hash);
    expect(await sha256File(join(seen.directory, "attempts/1/pty-output.log"))).toBe(seen.hash);
    expect(tape(seen.directory, "stdout.log").toString()).toMatch(/burst 2000[^]*completed"\}\n$/);
  });

  test("no output at all causes a diagnostic about the missing id, and empty tapes", async () => {
    box.program("codex", "cat >/dev/null");
    const result = await box.json(["start", "codex", "hello"]);
    expect(result).toMatchObject({
      ok: false,
      session: { field: null, value: null },
      outcome: { result: "interrupted" },
    });
    expect(result["diagnostics"].join()).toMatch(/no session id/);
    for (const file of ["stdout.log", "stderr.log", "pty-output.log"])
      expect(tape(result["runDirectory"], file)).toHaveLength(0);
  });

  test("a closed stdout and a grandchild that keeps it open do not delay the end or lose output", async () => {
    const closed = await box.json(["start", "demo", "hello @@close-stdout"]);
    expect(closed["session"].value).toMatch(/^[0-9a-f-]{36}$/);
    const held = await box.json(["start", "demo", "hello @@fork-child:hold"]);
    expect(held).toMatchObject({ ok: true });
    const grandchild = box.journalEntries().findLast((entry) => entry["event"] === "child")?.["child"];
    process.kill(grandchild, "SIGKILL");
  });
});

describe("artefacts", () => {
  test("of a failed spawn are a complete set and a record", async () => {
    // Found and executable, but what should interpret it is not there.
    const program = box.program("codex", "");
    writeFileSync(program, "#!/nowhere/interpreter\n");
    const known = new Set(box.runDirectories());
    const result = await box.run(["start", "codex", "hello"]);
    expect(result.code).toBeGreaterThan(0);
    expect(result.stderr).not.toMatch(/this is a bug/);
    expect(result.stderr).toMatch(/run [0-9a-f]{8} is recorded: reprise show/);
    const directory = box.runDirectories().find((one) => !known.has(one)) ?? "";
    expect(readdirSync(join(directory, "attempts/1")).toSorted()).toEqual(ARTEFACTS);
    const record = JSON.parse(readFileSync(join(directory, "run.json"), "utf8"));
    expect(record).toMatchObject({
      status: expect.stringMatching(/failed|interrupted/),
      attempts: 1,
      session: { value: null },
    });
    const { status, history } = await box.json(["show", directory.slice(-8)]);
    expect([status, history[0].state]).toEqual([record.status, "ended"]);
    rmSync(program);
  });

  test("have modes 0700 for directories and 0600 for files under umask 000", async () => {
    using own = new Sandbox();
    const command = `umask 000; exec '${process.execPath}' '${CLI}' start demo hello --quiet`;
    expect(await collect(spawn("sh", ["-c", command], { cwd: own.cwd, env: own.env() }))).toMatchObject({
      code: 0,
    });
    const wrong = readdirSync(own.state, { recursive: true, withFileTypes: true })
      .map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }))
      // The agent's own files are the agent's.
      .filter(({ path }) => !path.startsWith(join(own.state, "demo")))
      .filter(({ entry, path }) => (statSync(path).mode & 0o777) !== (entry.isDirectory() ? 0o700 : 0o600))
      .map(({ path }) => `${path} ${(statSync(path).mode & 0o777).toString(8)}`);
    expect(wrong).toEqual([]);
    expect(statSync(own.state).mode & 0o777).toBe(0o700);
    expect(own.runDirectories()).toHaveLength(1);
  });

  test("of agents have the modes of the user's own umask", async () => {
    using own = new Sandbox();
    const made = async (file: string, ...args: string[]) => {
      const words = [`write @@write:${file}`, "--quiet", ...args];
      const script = ["-c", 'umask 027; exec "$@"', "sh", process.execPath, CLI, "start", "demo", ...words];
      const { code } = await collect(spawn("sh", script, { cwd: own.cwd, env: own.env() }));
      const path = join(own.cwd, file);
      await until(file, () => existsSync(path));
      return [code, (statSync(path).mode & 0o777).toString(8)];
    };
    expect([
      await made("piped", "--mode", "pipe"),
      await made("typed", "--mode", "pty"),
      await made("held", "--detach"),
    ]).toEqual([
      [0, "640"],
      [0, "640"],
      [0, "640"],
    ]);
    const holders = () => readdirSync(join(own.state, "run")).filter((name) => name.startsWith("h-"));
    await until("the holder has finished", () => holders().length === 0);
  });

  test("of earlier attempts are never rewritten", async () => {
    const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
    const first = () =>
      readdirSync(join(runDirectory, "attempts/1")).map((name) => [name, sha256(tape(runDirectory, name))]);
    const before = first();
    await box.run(["resume", handle, "again"]);
    await until("the second attempt", () => existsSync(join(runDirectory, "attempts/2/receipt.json")));
    expect(first()).toEqual(before);
    expect(readdirSync(join(runDirectory, "attempts/2")).toSorted()).toEqual(
      [...ARTEFACTS, "receipt.json"].toSorted(),
    );
  });
});
