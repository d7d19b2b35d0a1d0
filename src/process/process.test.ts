import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import type { ProcessIdentity } from "../core/records.ts";
import {
  type Child,
  type ChildSpec,
  endTree,
  AgentProcesses,
  findMarked,
  findStrays,
  identify,
  isAlive,
  resolveProgram,
  runTool,
  self,
  signal,
  spawnPiped,
  spawnPty,
} from "./process.ts";

const PATH = process.env["PATH"] ?? "";
const scratch = mkdtempSync(join(tmpdir(), "reprise-process-"));
const QUICK = { interruptMs: 2000, terminateMs: 2000 };
const MODES = ["pipe", "pty"] as const;
type Mode = (typeof MODES)[number];

const markers: string[] = [];
afterAll(async () => {
  for (const marker of markers) await endTree(null, marker, { interruptMs: 0, terminateMs: 0 }, "kill");
  rmSync(scratch, { recursive: true });
}, 60_000);

function newMarker(): string {
  const marker = `test-${process.pid}-${markers.length}`;
  markers.push(marker);
  return marker;
}

const fixture = (name: string) => fileURLToPath(new URL(`process.fixtures/${name}`, import.meta.url));

interface Started {
  readonly child: Child;
  readonly marker: string;
  readonly output: { stdout: Buffer[]; stderr: Buffer[] };
  text(stream: "stdout" | "stderr"): string;
}

/** Starts a program on pipes or on a terminal; a `.sh` or `.pl` file is a fixture. */
async function start(
  mode: Mode,
  command: readonly string[],
  more: Partial<ChildSpec> & { interactive?: boolean } = {},
): Promise<Started> {
  const { interactive = false, ...given } = more;
  const [first = "", ...rest] = command;
  const program = first.endsWith(".sh") ? ["sh", fixture(first)] : [first];
  const [file = "", ...args] = first.endsWith(".pl") ? ["perl", fixture(first)] : program;
  const marker = newMarker();
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const spec = { file, args: [...args, ...rest], cwd: scratch, env: { PATH }, stdin: null, marker, ...given };
  const onOutput = (stream: "stdout" | "stderr", chunk: Buffer) => void output[stream].push(chunk);
  const child =
    mode === "pipe"
      ? await spawnPiped(spec, onOutput)
      : await spawnPty({ ...spec, size: { cols: 100, rows: 30 }, interactive }, onOutput);
  const text = (stream: "stdout" | "stderr") =>
    Buffer.concat(output[stream]).toString().replaceAll("\r\n", "\n");
  return { child, marker, output, text };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await sleep(10);
  }
}

async function faultOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  return error instanceof Fault ? error.code : `no fault: ${String(error)}`;
}

describe("a stdin that is kept open", () => {
  test("delivers data as it is written, and ends when it is closed", async () => {
    const run = await start("pipe", ["cat"], { keepInput: true, stdin: "zero " });
    expect(run.child.write("one ")).toBe(true);
    await until("it was read", () => run.text("stdout") === "zero one ");
    expect(run.child.write(Buffer.from("two"))).toBe(true);
    run.child.closeInput();
    run.child.closeInput();
    expect(await run.child.ended).toEqual({ code: 0, signal: null });
    expect([run.text("stdout"), run.child.write("late")]).toEqual(["zero one two", true]);
  });

  test("holds 16 MiB for a program that does not read, and no more", async () => {
    const run = await start("pipe", ["sleep", "300"], { keepInput: true });
    const piece = "x".repeat(1 << 20);
    let taken = 0;
    while (taken < 100 && run.child.write(piece)) taken += 1;
    expect(taken).toBeLessThanOrEqual(17);
    await endTree(run.child.identity, run.marker, QUICK, "kill");
    expect(await run.child.ended).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("may be closed by the program, which goes on", async () => {
    const run = await start("pipe", ["sh", "-c", "exec <&-; echo closed; sleep 0.2; exit 3"], {
      keepInput: true,
    });
    await until("it is closed", () => run.text("stdout") !== "");
    for (let at = 0; at < 20; at += 1) run.child.write("unread\n".repeat(1000));
    expect(await run.child.ended).toEqual({ code: 3, signal: null });
  });
});

describe.each(MODES)("a child in %s mode", (mode) => {
  test("delivers both streams apart, and the exit code", async () => {
    const run = await start(mode, ["sh", "-c", "echo out; echo err >&2; exit 7"]);
    expect(await run.child.ended).toEqual({ code: 7, signal: null });
    expect([run.text("stdout"), run.text("stderr")]).toEqual(["out\n", "err\n"]);
  });

  test("names the signal that ended it", async () => {
    const run = await start(mode, ["sh", "-c", "kill -9 $$"]);
    expect(await run.child.ended).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("an exit code of 127 by the program itself is an ordinary exit", async () => {
    const run = await start(mode, ["sh", "-c", "exit 127"]);
    expect(await run.child.ended).toEqual({ code: 127, signal: null });
  });

  test("gets 2 MB on stdin, and then its end", async () => {
    const run = await start(mode, ["wc", "-c"], { stdin: "é".repeat(1 << 20) });
    await run.child.ended;
    expect(run.text("stdout").trim()).toBe(String(2 << 20));
  });

  test("may end without reading its stdin", async () => {
    const run = await start(mode, ["sh", "-c", "exec <&-; exit 0"], { stdin: "x".repeat(2 << 20) });
    expect(await run.child.ended).toEqual({ code: 0, signal: null });
  });

  test("does not hang on an empty stdin", async () => {
    const run = await start(mode, ["cat"]);
    expect(await run.child.ended).toEqual({ code: 0, signal: null });
  });

  test("has exactly the environment given, PWD and the marker", async () => {
    const env = { PATH, PWD: "/stale", "BASH_FUNC_greet%%": "() { echo hi; }", "odd.name": "-x" };
    const run = await start(mode, ["env"], { env });
    await run.child.ended;
    const terminal = mode === "pty" ? ["TERM=xterm-256color"] : [];
    expect(run.text("stdout").trimEnd().split("\n").toSorted()).toEqual(
      [
        "BASH_FUNC_greet%%=() { echo hi; }",
        `PATH=${PATH}`,
        `PWD=${scratch}`,
        `REPRISE_ATTEMPT=${run.marker}`,
        "odd.name=-x",
        ...terminal,
      ].toSorted(),
    );
  });

  test("gets its arguments untouched", async () => {
    const args = ["", "-p", "--", "a b", "$(id)", "`id`", "'\"", "a\nb", "é", "*"];
    const run = await start(mode, ["perl", "-e", 'print join("|", @ARGV)', "--", ...args]);
    await run.child.ended;
    expect(run.text("stdout")).toBe(args.join("|"));
  });

  test("leads a separate session", async () => {
    const run = await start(mode, ["sh", "-c", "ps -o pgid=,sid= -p $$"]);
    await run.child.ended;
    const { pid } = run.child.identity;
    expect(run.text("stdout").trim().split(/\s+/)).toEqual([String(pid), String(pid)]);
  });

  test.skipIf(process.platform !== "linux")("gets none of our descriptors", async () => {
    await start(mode, ["sleep", "300"]);
    const run = await start("pty", ["sh", "-c", "readlink /proc/self/fd/*; exit 0"]);
    await run.child.ended;
    expect(run.text("stdout")).not.toMatch(/ptmx/);
  });

  test("ends without waiting for a stray that keeps the output open", async () => {
    const run = await start(mode, ["forks-and-exits.sh"]);
    expect(await run.child.ended).toEqual({ code: 3, signal: null });
    expect(run.text("stdout")).toMatch(/^stray \d+\n$/);
    if (mode === "pipe") expect(findMarked(run.marker)).toHaveLength(1);
    expect(await endTree(run.child.identity, run.marker, QUICK)).toEqual({ survivors: [] });
    expect(findMarked(run.marker)).toEqual([]);
  });

  test("may close its output long before it ends", async () => {
    const run = await start(mode, ["closes-output-early.sh"]);
    expect(await run.child.ended).toEqual({ code: 4, signal: null });
    expect(run.text("stdout")).toBe("last words\n");
  });

  test("blocks while reading is paused, and loses nothing", async () => {
    const run = await start(mode, ["writes-bursts.pl", "3000000"]);
    let over = false;
    const ended = run.child.ended.then(() => (over = true));
    run.child.pause();
    await sleep(300);
    const pausedAt = Buffer.concat(run.output.stderr).length;
    expect([over, pausedAt < 3_000_000]).toEqual([false, true]);
    run.child.resume();
    await ended;
    expect(Buffer.concat(run.output.stderr).length).toBe(3_000_000);
    expect(Buffer.concat(run.output.stdout).length).toBe(3_000_000);
  });

  test("delivers bursts right before its end whole, 20 times", async () => {
    const sizes = new Set<string>();
    for (let time = 0; time < 20; time += 1) {
      const run = await start(mode, ["writes-bursts.pl", "200000"]);
      await run.child.ended;
      const [out, err] = [Buffer.concat(run.output.stdout), Buffer.concat(run.output.stderr)];
      sizes.add(`${out.length} ${err.length} ${out.equals(err)}`);
    }
    expect([...sizes]).toEqual(["200000 200000 true"]);
  });

  test("can be asked to stop", async () => {
    const run = await start(mode, ["stops-on-interrupt.sh"]);
    await until("it is ready", () => run.text("stdout").includes("ready"));
    new AgentProcesses(run.child.identity, run.marker).interrupt();
    expect(await run.child.ended).toEqual({ code: 9, signal: null });
    expect(run.text("stdout")).toBe("ready\ngoodbye\n");
  });

  test("remembers descendants that only their parent could reveal when that is asked to stop", async () => {
    const leaving =
      'env -i /usr/bin/env setsid sleep 600 & echo "child $!"; trap "exit 9" INT; while :; do sleep 0.05; done';
    const run = await start(mode, ["sh", "-c", leaving]);
    await until("it is ready", () => /child \d+/.test(run.text("stdout")));
    const stray = identify(Number(/child (\d+)/.exec(run.text("stdout"))?.[1]));
    if (stray === null) throw new Error("it has ended");
    await until("it has no marker", () => !findMarked(run.marker).some(({ pid }) => pid === stray.pid));
    const family = new AgentProcesses(run.child.identity, run.marker);
    family.interrupt();
    await run.child.ended;
    expect(isAlive(stray)).toBe(true);
    expect(await family.end(QUICK, "terminate")).toEqual({ survivors: [] });
    expect(isAlive(stray)).toBe(false);
  });

  test("is ended with all kinds of descendants", async () => {
    const run = await start(mode, ["leaves-strays.sh"]);
    const names = ["daemon", "ignores-hup", "main", "own-group", "own-session", "plain", "unmarked"];
    const seen = () =>
      run
        .text("stdout")
        .split("\n")
        .filter((line) => /^[a-z-]+ \d+$/.test(line));
    await until("all have started", () => seen().length === names.length);
    const lines = seen().map((line) => line.split(" "));
    expect(lines.map(([name = ""]) => name).toSorted()).toEqual(names);
    const identities = lines.map(([, pid]) => identify(Number(pid)));
    expect(identities).not.toContain(null);
    expect(await endTree(run.child.identity, run.marker, QUICK)).toEqual({ survivors: [] });
    expect(identities.filter((identity) => identity !== null && isAlive(identity))).toEqual([]);
    await run.child.ended;
  });

  test("is killed when it ignores SIGINT and SIGTERM", async () => {
    const run = await start(mode, ["ignores-sigterm.sh"]);
    await until("it is ready", () => run.text("stdout").includes("ready"));
    const ended = await endTree(run.child.identity, run.marker, { interruptMs: 50, terminateMs: 50 });
    expect(ended).toEqual({ survivors: [] });
    expect(await run.child.ended).toEqual({ code: null, signal: "SIGKILL" });
  });

  const refused: Record<string, [Partial<ChildSpec>, string]> = {
    "no such program": [{ file: "no-such-program" }, "engine_missing"],
    "no such path": [{ file: "/no/such/program" }, "engine_missing"],
    "a relative path": [{ file: "bin/sh" }, "engine_missing"],
    "not executable": [{ file: script("not-executable", "#!/bin/sh\n", 0o644) }, "engine_missing"],
    "its interpreter is missing": [{ file: script("no-interpreter", "#!/no/such/sh\n") }, "engine_missing"],
    "a directory": [{ file: "/tmp" }, "engine_missing"],
    "an argument of 200 KB": [{ args: ["x".repeat(200_000)] }, "message_invalid"],
    "a zero byte": [{ args: ["a\0b"] }, "message_invalid"],
    "no such cwd": [{ cwd: join(scratch, "gone") }, "cwd_missing"],
    "cwd is a file": [{ cwd: "/etc/passwd" }, "cwd_missing"],
  };
  test.each(Object.entries(refused))("is refused: %s", async (_name, [spec, code]) => {
    expect(await faultOf(start(mode, ["true"], spec))).toBe(code);
  });
});

describe("a terminal", () => {
  test("stdout and stderr are two terminals, and the first one controls", async () => {
    const run = await start("pty", ["sh", "-c", "tty <&1; tty <&2; echo tty >/dev/tty; stty size <&2"]);
    await run.child.ended;
    const [out, err, tty, size] = run.text("stdout").split("\n");
    expect(out).toMatch(/^\/dev\//);
    expect(err).toMatch(/^\/dev\//);
    expect([out === err, tty, size]).toEqual([false, "tty", "30 100"]);
  });

  test("an interactive child reads typed text and sees a new size", async () => {
    const program = 'trap "stty size" WINCH; echo ready; until read line; do :; done; echo "got $line"; tty';
    const run = await start("pty", ["sh", "-c", program], { interactive: true });
    await until("it is ready", () => run.text("stdout").includes("ready"));
    run.child.resize({ cols: 132, rows: 43 });
    await until("the size has changed", () => /43 132/.test(run.text("stdout")));
    run.child.write("hello\r");
    expect(await run.child.ended).toEqual({ code: 0, signal: null });
    expect(run.text("stdout")).toMatch(/got hello\n\/dev\//);
  });

  test("bytes are not decoded", async () => {
    const run = await start("pty", ["perl", "-e", "print chr(0xff), chr(0xc3), chr(0)"]);
    await run.child.ended;
    expect(Buffer.concat(run.output.stdout)).toEqual(Buffer.from([0xff, 0xc3, 0]));
  });

  test("output stopped by flow control does not delay the end", async () => {
    const run = await start("pty", [
      "sh",
      "-c",
      "echo before; perl -MPOSIX -e 'POSIX::tcflow(1, POSIX::TCOOFF())'",
    ]);
    await run.child.ended;
    expect(run.text("stdout")).toBe("before\n");
  });
});

describe("identity", () => {
  test("a live process matches itself, and nothing else with its pid", async () => {
    const { child } = await start("pipe", ["sleep", "300"]);
    const me = child.identity;
    expect(identify(me.pid)).toEqual(me);
    expect([self().pid, isAlive(self()), isAlive(me)]).toEqual([process.pid, true, true]);
    const others: readonly Partial<ProcessIdentity>[] = [
      { start: "1" },
      { boot: "x" },
      { space: "x" },
      { pid: -1 },
      { pid: 0 },
    ];
    expect(others.map((other) => isAlive({ ...me, ...other }))).toEqual(others.map(() => false));
  });

  test("a stranger with a reused pid is never signalled", async () => {
    const { child } = await start("pipe", ["sleep", "300"]);
    const stranger = { ...child.identity, start: "1" };
    expect(signal(stranger, "SIGKILL")).toBe(false);
    expect(await endTree(stranger, "nobody", { interruptMs: 0, terminateMs: 0 })).toEqual({ survivors: [] });
    expect(isAlive(child.identity)).toBe(true);
    expect(signal(child.identity, "SIGKILL")).toBe(true);
    expect(await child.ended).toEqual({ code: null, signal: "SIGKILL" });
    expect(isAlive(child.identity)).toBe(false);
  });

  test("pid 1 and this process are never signalled", async () => {
    expect(signal(self(), "SIGCONT")).toBe(false);
    const init = identify(1);
    expect(init !== null && signal(init, "SIGCONT")).toBe(false);
  });

  test.skipIf(process.platform !== "linux")("a zombie is dead", async () => {
    const run = await start("pipe", ["leaves-a-zombie.pl"]);
    await until("its pid is known", () => /^\d+\n/.test(run.text("stdout")));
    const pid = Number(run.text("stdout"));
    const stat = () => readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? [];
    await until("it is a zombie", () => stat()[0] === "Z");
    expect(identify(pid)).toBeNull();
    expect(isAlive({ ...self(), pid, start: stat()[19] ?? "" })).toBe(false);
  });

  test("a marker is found whole, never by a part of it", async () => {
    const { child, marker } = await start("pipe", ["sleep", "300"]);
    expect(findMarked(marker)).toEqual([child.identity]);
    expect([findMarked(marker.slice(0, -1)), findMarked(`${marker}0`), findMarked("")]).toEqual([[], [], []]);
  });

  test("the rest of an agent's session is found without a marker, and a later session with its number is left alone", async () => {
    const lock = script("agent.lock", "", 0o600);
    // A shell that starts a program with an empty environment, prints its pid, and ends.
    const leaves = "env -i sleep 300 >&- 2>&- & echo $!";
    const run = await start("pipe", ["sh", "-c", leaves], { lock });
    const { child, marker } = run;
    await child.ended;
    const left = identify(Number(run.text("stdout")));
    expect(left).not.toBeNull();
    await until("it is another program", () => findMarked(marker).length === 0);
    const { autogroup, ...bare } = child.identity;
    const doubtful = [{ identity: left, standing: "doubtful" }];
    const told = autogroup === undefined ? doubtful : [{ identity: left, standing: "ours" }];
    const others: readonly (readonly [ProcessIdentity, unknown])[] = [
      [child.identity, told],
      [bare, doubtful],
      [{ ...bare, autogroup: "/autogroup-0" }, autogroup === undefined ? doubtful : []],
      [{ ...child.identity, boot: "x" }, []],
      [{ ...child.identity, space: "x" }, []],
    ];
    expect(others.map(([agent]) => findStrays(marker, agent))).toEqual(others.map(([, found]) => found));
    for (const [agent] of others.slice(1)) await endTree(agent, marker, QUICK);
    expect(left !== null && isAlive(left)).toBe(true);
    if (autogroup === undefined) expect(left !== null && signal(left, "SIGKILL")).toBe(true);
    else expect(await endTree(child.identity, marker, QUICK)).toEqual({ survivors: [] });
    await until("it has ended", () => left !== null && !isAlive(left));
  });

  const hasSetpriv = process.platform === "linux" && resolveProgram("setpriv", process.env) !== null;
  test.skipIf(!hasSetpriv)("an agent gets a signal to stop when its parent is killed", async () => {
    const note = join(scratch, "told");
    const agent = `trap 'echo SIGTERM > ${note}; exit' TERM; echo ready; while :; do sleep 0.02; done`;
    const args = ["--import", "tsx", fixture("starts-an-agent.mjs"), "sh", "-c", agent];
    const holder = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    holder.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
    await until("the agent runs", () => /agent \d+\n/.test(said) && said.includes("ready"));
    const identity = identify(Number(/agent (\d+)/.exec(said)?.[1]));
    holder.kill("SIGKILL");
    await until("the agent has ended", () => identity !== null && !isAlive(identity));
    expect(existsSync(note) && readFileSync(note, "utf8")).toBe("SIGTERM\n");
  });
});

describe("resolveProgram", () => {
  const bin = join(scratch, "bin");
  const tool = script("tool", "#!/bin/sh\n");
  const link = join(scratch, "link");
  symlinkSync(tool, link);
  const cases: Record<string, [name: string, path: string, then: string | null]> = {
    "on PATH": ["tool", `${bin}:${scratch}`, tool],
    "a link is kept, because its name may matter": ["link", scratch, link],
    "an absolute path needs no PATH": [tool, "", tool],
    "not on PATH": ["tool", bin, null],
    "not executable": ["not-executable", scratch, null],
    "empty and relative elements are ignored": ["package.json", "::.:./", null],
    "an empty name": ["", scratch, null],
    "a directory": [scratch.slice(scratch.lastIndexOf("/") + 1), tmpdir(), null],
  };
  test.each(Object.entries(cases))("%s", (_name, [name, path, then]) => {
    expect(resolveProgram(name, { PATH: path })).toBe(then);
  });
});

describe("runTool", () => {
  const options = { cwd: scratch, env: { PATH }, timeoutMs: 15_000 };
  const killed = { code: null, signal: "SIGKILL" };
  const cases: Record<string, [string, object, object]> = {
    "a result": [
      "echo out; echo err >&2; exit 3",
      {},
      { code: 3, signal: null, stdout: "out\n", stderr: "err\n", timedOut: false },
    ],
    "stdin is empty": ["cat", {}, { code: 0, signal: null, stdout: "", stderr: "", timedOut: false }],
    "stdin is given": [
      "cat",
      { stdin: "hi" },
      { code: 0, signal: null, stdout: "hi", stderr: "", timedOut: false },
    ],
    "too slow": [
      "echo a; sleep 300",
      { timeoutMs: 300 },
      { ...killed, stdout: "a\n", stderr: "", timedOut: true },
    ],
    "too much": ["yes", { maxBytes: 5 }, { ...killed, stdout: "y\ny\ny", stderr: "", timedOut: false }],
    "too much, and over at once": [
      "echo 123456",
      { maxBytes: 5 },
      { ...killed, stdout: "12345", stderr: "", timedOut: false },
    ],
    "just enough": [
      "printf 12345",
      { maxBytes: 5 },
      { code: 0, signal: null, stdout: "12345", stderr: "", timedOut: false },
    ],
  };
  test.each(Object.entries(cases))("%s", async (_name, [command, more, then]) => {
    expect(await runTool("sh", ["-c", command], { ...options, ...more })).toEqual(then);
  });

  test("reports a missing tool as a fault", async () => {
    expect(await faultOf(runTool("no-such-tool", [], options))).toBe("engine_missing");
  });
});

function script(name: string, text: string, mode = 0o755): string {
  const path = join(scratch, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}
