/** An agent that runs as another user cannot be ended: a message names its pid, and no second agent is started. */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { identify, resolveProgram } from "../../src/process/process.ts";
import { ACTOR, CLI, collect, Sandbox, until } from "../e2e/sandbox.ts";

const [USER, OTHER] = [64_001, 64_002];
const SETPRIV = resolveProgram("setpriv", process.env) ?? "";
const as = (user: number) => [SETPRIV, `--reuid=${user}`, `--regid=${user}`, "--clear-groups"];
const canRead = `require("node:fs").accessSync(${JSON.stringify(CLI)}); require("node:fs").accessSync(${JSON.stringify(ACTOR)})`;
const [file, ...words] = [...as(USER), process.execPath, "-e", canRead];
const CAN_BE_OTHERS = SETPRIV !== "" && spawnSync(file, words).status === 0;

/** Reprise is one user; its `codex` becomes another one, by a program that root has allowed to. */
class TwoUsers extends Sandbox {
  constructor() {
    super();
    const becomes = join(this.bin, "becomes");
    copyFileSync(SETPRIV, becomes);
    chmodSync(becomes, 0o4755);
    const [, ...to] = as(OTHER);
    const actor = `'${process.execPath}' '${ACTOR}' --as codex -- "$@"`;
    this.program("codex", `exec '${becomes}' ${to.join(" ")} ${actor}`);
    chmodSync(this.root, 0o755);
    writeFileSync(this.journal, "");
    mkdirSync(join(this.root, "engine"));
    for (const path of [this.journal, join(this.root, "engine")]) chmodSync(path, 0o777);
    mkdirSync(this.state, { mode: 0o700 });
    for (const path of [this.home, this.cwd, this.state]) chownSync(path, USER, USER);
  }

  override env(): NodeJS.ProcessEnv {
    return super.env({ CODEX_HOME: join(this.root, "engine") });
  }

  override spawn(args: readonly string[]) {
    const [program, ...first] = [...as(USER), process.execPath, CLI];
    return spawn(program, [...first, ...args], { cwd: this.cwd, env: this.env(), stdio: "pipe" });
  }

  told() {
    return this.journalEntries().filter(({ event }) => event === "message");
  }

  /** A run whose agent works for a minute. */
  async works(...options: string[]) {
    const child = this.spawn(["start", "codex", "long @@wait:60000", ...options]);
    const done = collect(child);
    const [message] = await until("the agent has its message", () => this.told().length > 0 && this.told());
    const [directory = ""] = this.runDirectories();
    // What an agent prints when nobody reads any more ends it.
    const tape = join(directory, "attempts", "1", "stdout.log");
    await until("the agent has begun", () => readFileSync(tape, "utf8").includes("turn.started"));
    return { handle: directory.slice(-8), child, done, pid: message?.["pid"] as number };
  }
}

const says = (pid: number) => expect.stringContaining(`sudo kill ${pid}`);

test.skipIf(!CAN_BE_OTHERS)("no command takes an agent of another user for gone", async () => {
  using box = new TwoUsers();
  const { handle, child, done, pid } = await box.works();
  child.kill("SIGKILL");
  await done;
  try {
    expect((await box.run(["doctor"])).stdout).toContain(`left processes behind: pid ${pid}`);
    for (const command of [
      ["stop", handle],
      ["resume", handle, "second"],
      ["rm", handle],
    ])
      expect([command, await box.run(command)]).toEqual([
        command,
        expect.objectContaining({ code: 4, stderr: says(pid) }),
      ]);
    expect(box.told()).toHaveLength(1);
  } finally {
    process.kill(pid, "SIGKILL");
  }
  await until("it has ended", () => identify(pid) === null);
  expect(await box.run(["stop", handle])).toMatchObject({ code: 0 });
});

const ASKED: Record<string, { options: readonly string[]; signal: NodeJS.Signals | null }> = {
  "a time limit": { options: ["--timeout", "1s"], signal: null },
  "Ctrl-C": { options: [], signal: "SIGINT" },
};
test.skipIf(!CAN_BE_OTHERS).each(Object.entries(ASKED))(
  "%s that cannot end an agent of another user says so, and the attempt continues",
  async (_name, { options, signal }) => {
    using box = new TwoUsers();
    const { handle, child, done, pid } = await box.works(...options);
    let said = "";
    child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
    try {
      if (signal !== null) child.kill(signal);
      await until("it says so", () => said.includes(`sudo kill ${pid}`));
      expect(identify(pid)).not.toBeNull();
      const [{ status } = { status: "" }] = (await box.json<{ runs: { status: string }[] }>(["list"])).runs;
      expect(status).toBe("running");
    } finally {
      process.kill(pid, "SIGKILL");
    }
    await done;
    expect((await box.run(["show", handle])).stdout).toContain(`sudo kill ${pid}`);
  },
);
