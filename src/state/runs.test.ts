import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, Receipt, RunRecord } from "../core/records.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { redactor } from "../lib/secrets.ts";
import * as runs from "./runs.ts";
import { openState, type StateDir } from "./directory.ts";

const RUN_ID = "20260102T030405Z-demo-1a2b3c4d";
const AT = "2026-01-02T03:04:05.000Z";

let dir: string;
let state: StateDir;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "reprise-runs-"));
  state = await openState(join(dir, "state"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function makeRun(): RunRecord {
  const runDirectory = runs.createRunDir(state, RUN_ID);
  if (runDirectory === null) throw new Error("taken");
  return {
    v: 1,
    handle: "1a2b3c4d",
    runId: RUN_ID,
    runDirectory,
    agentName: "demo",
    session: { field: "session_id", value: "s-1", source: "stdout", verifiedAt: null },
    sessions: [{ value: "s-1", source: "stdout", at: AT, attempt: 1, verifiedAt: null }],
    launch: {
      args: ["--json"],
      given: ["--api-key=abcdefgh1"],
      redacted: [],
      env: [{ name: "A_TOKEN", value: null }],
      rights: [],
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      program: "/usr/bin/demo",
      version: "1",
      message: "say canary-value-1",
    },
    cwd: "/work",
    engineHome: null,
    status: "running",
    attempts: 1,
    subject: null,
    name: "ünïcode",
    escrow: null,
    createdAt: AT,
    updatedAt: AT,
  };
}

const attempt: AttemptRecord = {
  v: 1,
  runId: RUN_ID,
  n: 1,
  kind: "start",
  state: "ended",
  mode: "pipe",
  interactive: false,
  program: "/usr/bin/demo",
  args: [],
  native: [],
  cwd: "/work",
  message: "hello",
  owner: { pid: 7, start: "1", boot: "b", space: "pid:[1]" },
  agent: null,
  asked: null,
  reported: [],
  engineVersion: null,
  startedAt: AT,
  endedAt: AT,
  exit: { code: 1, signal: null },
  outcome: {
    result: "failed",
    reason: "it failed",
    trouble: { kind: "rate_limited", message: "slow down", resetsAt: AT },
  },
  tokens: { input: 1, output: 2 },
  bytes: { stdout: 3, stderr: 4 },
  diagnostics: [],
};

const receipt: Receipt = {
  v: 1,
  runId: RUN_ID,
  attempt: 1,
  asked: "s-1",
  reported: "s-1",
  verified: "engine_reported",
  cwd: "/work",
  engineVersion: null,
  restoredFromEscrow: false,
  options: { kept: ["--json"], dropped: [], rewritten: [] },
  at: AT,
};

const agent: AgentRecord = {
  v: 1,
  id: "1a2b3c4d",
  runId: RUN_ID,
  definition: {
    name: "worker",
    engine: "demo",
    args: ["--model", "m"],
    mode: "headless",
    prompt: "say canary-value-1",
    cwd: "/work",
    env: [
      ["LANG", "C"],
      ["API_KEY", "abcdefgh1"],
    ],
    policy: {
      on: {
        idle: [],
        dead: [
          {
            action: "resume",
            message: "Go on.",
            append: true,
            run: null,
            timeoutMs: 0,
            attempts: 2,
            cooldownMs: 60_000,
            match: "any",
          },
        ],
        error: [],
        prompt: [],
      },
      idleAfterMs: 60_000,
      maxAttempts: null,
    },
  },
  runbook: { path: "/home/ada/runbooks/a.toml", sha256: "00" },
  vars: { branch: "main", token: "abcdefgh1" },
  phase: "active",
  reason: null,
  pipeline: null,
  createdAt: AT,
  endedAt: null,
};

describe("agent.json", () => {
  test("comes back as saved, without secrets, readable by the owner alone", async () => {
    const { runDirectory } = makeRun();
    expect(await runs.readAgentFile(runDirectory)).toBeNull();
    runs.saveAgentFile(runDirectory, agent, redactor([{ name: "CANARY", value: "canary-value-1" }]));
    expect(await runs.readAgentFile(runDirectory)).toEqual({
      ...agent,
      definition: { ...agent.definition, prompt: "say [redacted:CANARY]", env: [["LANG", "C"]] },
      vars: { branch: "main", token: "[redacted]" },
    });
    const loose = { ...agent.definition, env: [["MODE", "sk-live-0123456789abcdefghij"]] as const };
    expect(runs.storableAgent({ ...agent, definition: loose }).definition.env).toEqual([]);
    expect((statSync(join(runDirectory, "agent.json")).mode & 0o777).toString(8)).toBe("600");
    expect(readdirSync(runDirectory).toSorted()).toEqual(["agent.json", "attempts"]);
  });

  test("keeps fields of a later version when another end replaces the record", async () => {
    const { runDirectory } = makeRun();
    runs.saveAgentFile(runDirectory, { ...agent, definition: { ...agent.definition, env: [] }, vars: {} });
    const loaded = await runs.readAgentFile(runDirectory);
    const later = { ...(loaded as AgentRecord), colour: "red", phase: "done", endedAt: AT } as const;
    runs.saveAgentFile(runDirectory, later);
    expect(await runs.readAgentFile(runDirectory)).toEqual(later);
  });

  const bad: Record<string, [object, string]> = {
    "of another run": [{ runId: "20260102T030405Z-demo-00000000" }, "record_damaged"],
    "of another handle": [{ id: "00000000" }, "record_damaged"],
    "with an unknown phase": [{ phase: "asleep" }, "schema_newer"],
    "of a later version": [{ v: 2 }, "schema_newer"],
  };
  test.each(Object.entries(bad))("%s is refused", async (_name, [fields, code]) => {
    const { runDirectory } = makeRun();
    writeFileSync(join(runDirectory, "agent.json"), JSON.stringify({ ...agent, ...fields }));
    await expect(runs.readAgentFile(runDirectory)).rejects.toMatchObject({ code });
  });
});

describe("records", () => {
  test("come back as saved, without secrets", async () => {
    const run = makeRun();
    runs.saveRunFile(run, redactor([{ name: "CANARY", value: "canary-value-1" }]));
    expect(await runs.loadRunFile(run.runDirectory)).toEqual({
      ...run,
      launch: { ...run.launch, given: ["--api-key=[redacted]"], message: "say [redacted:CANARY]" },
    });

    expect(runs.createAttemptDir(run.runDirectory, 1)).toBe(join(run.runDirectory, "attempts", "1"));
    expect(runs.createAttemptDir(run.runDirectory, 1)).toBeNull();
    runs.saveAttemptFile(run.runDirectory, attempt);
    runs.saveReceipt(run.runDirectory, receipt);
    expect(await runs.loadAttemptFile(run.runDirectory, 1)).toEqual(attempt);
    expect(await runs.loadReceipt(run.runDirectory, 1)).toEqual(receipt);
  });

  test("are null where they are missing", async () => {
    const run = makeRun();
    expect(await runs.loadRunFile(run.runDirectory)).toBeNull();
    expect(await runs.loadAttemptFile(run.runDirectory, 1)).toBeNull();
    expect(await runs.loadReceipt(run.runDirectory, 1)).toBeNull();
    expect(runs.listAttemptDirs(run.runDirectory)).toEqual([]);
  });

  test("keep fields of a later version", async () => {
    const run = makeRun();
    const later = { ...run, colour: "red", session: { ...run.session, depth: { more: [1] } } };
    runs.saveRunFile(later, (text) => text);
    const loaded = await runs.loadRunFile(run.runDirectory);
    expect(loaded).toEqual(later);
    runs.saveRunFile({ ...(loaded as RunRecord), status: "completed" }, (text) => text);
    expect(await runs.loadRunFile(run.runDirectory)).toEqual({ ...later, status: "completed" });
  });

  test("of attempts are listed by number", () => {
    const run = makeRun();
    for (const n of [10, 2, 1]) runs.createAttemptDir(run.runDirectory, n);
    mkdirSync(join(run.runDirectory, "attempts", "007"));
    writeFileSync(join(run.runDirectory, "attempts", "x"), "");
    expect(runs.listAttemptDirs(run.runDirectory)).toEqual([1, 2, 10]);
  });

  test("and directories are readable by the owner alone under any umask", () => {
    const before = process.umask(0);
    try {
      const run = makeRun();
      runs.saveRunFile(run);
      runs.createAttemptDir(run.runDirectory, 1);
      runs.saveAttemptFile(run.runDirectory, attempt);
    } finally {
      process.umask(before);
    }
    const modes = ["", "attempts", "attempts/1", "run.json", "attempts/1/meta.json"].map((name) =>
      (statSync(join(state.runsRoot, RUN_ID, name)).mode & 0o777).toString(8),
    );
    expect(modes).toEqual(["700", "700", "700", "600", "600"]);
  });
});

describe("bad records", () => {
  const broken: Record<string, [change: object, code: string]> = {
    "wrong type": [{ attempts: "3" }, "record_damaged"],
    "missing field": [{ cwd: undefined }, "record_damaged"],
    "impossible handle": [{ handle: "../../..", runId: RUN_ID }, "record_damaged"],
    "handle of another run": [{ handle: "deadbeef" }, "record_damaged"],
    "copied from another run": [
      { runId: "20260102T030405Z-demo-deadbeef", handle: "deadbeef" },
      "record_damaged",
    ],
    "unknown status": [{ status: "sleeping" }, "schema_newer"],
    "no date": [{ updatedAt: "tomorrow" }, "record_damaged"],
    "older shape": [{ v: 0 }, "record_damaged"],
    "newer shape": [{ v: 2 }, "schema_newer"],
  };
  test.each(Object.entries(broken))("%s", async (_name, [change, code]) => {
    const run = makeRun();
    writeFileSync(join(run.runDirectory, "run.json"), JSON.stringify({ ...run, ...change }));
    await expect(runs.loadRunFile(run.runDirectory)).rejects.toMatchObject({
      code,
      facts: { path: join(run.runDirectory, "run.json") },
    });
  });

  test.each([-1, 0, 1.5, 5_000_000])("an owner with pid %d", async (pid) => {
    const run = makeRun();
    runs.createAttemptDir(run.runDirectory, 1);
    runs.saveAttemptFile(run.runDirectory, { ...attempt, owner: { ...attempt.owner, pid } });
    await expect(runs.loadAttemptFile(run.runDirectory, 1)).rejects.toMatchObject({ code: "record_damaged" });
  });

  test("a record cut off at any byte is either damaged or whole", async () => {
    const run = makeRun();
    runs.saveRunFile(run, (text) => text);
    const path = join(run.runDirectory, "run.json");
    const whole = readFileSync(path);
    for (let length = 0; length <= whole.length; length += 1) {
      writeFileSync(path, whole.subarray(0, length));
      const then = await runs.loadRunFile(run.runDirectory).catch((error: unknown) => error);
      if (length >= whole.length - 1) expect(then).toEqual(run);
      else expect([length, then instanceof Fault && then.code]).toEqual([length, "record_damaged"]);
    }
  });

  test("a pipe in place of run.json causes no waiting", async () => {
    const run = makeRun();
    execFileSync("env", ["mkfifo", join(run.runDirectory, "run.json")]);
    await expect(runs.loadRunFile(run.runDirectory)).rejects.toMatchObject({ code: "record_damaged" });
  });
});

describe("run directories", () => {
  test("an id can be used only once", () => {
    makeRun();
    expect(runs.createRunDir(state, RUN_ID)).toBeNull();
  });

  test("a moved state directory works, and the record follows it", async () => {
    runs.saveRunFile(makeRun());
    renameSync(join(dir, "state"), join(dir, "moved"));
    const now = join(dir, "moved", "runs", RUN_ID);
    expect(await runs.loadRunFile(now)).toMatchObject({ runDirectory: now });
  });

  test("links and directories that others may write to are refused", async () => {
    const run = makeRun();
    runs.saveRunFile(run);
    renameSync(run.runDirectory, join(dir, "outside"));
    await expect(runs.loadRunFile(run.runDirectory)).rejects.toMatchObject({ code: "run_dir_missing" });
    expect(() => runs.saveRunFile(run)).toThrow(expect.objectContaining({ code: "run_dir_missing" }));
    symlinkSync(join(dir, "outside"), run.runDirectory);
    await expect(runs.loadRunFile(run.runDirectory)).rejects.toMatchObject({ code: "denied" });
    expect(() => runs.saveRunFile(run)).toThrow(expect.objectContaining({ code: "denied" }));
    await expect(runs.removeRunDir(state, RUN_ID)).rejects.toMatchObject({ code: "outside_root" });
    expect(existsSync(join(dir, "outside", "run.json"))).toBe(true);
    unlinkSync(run.runDirectory);
    renameSync(join(dir, "outside"), run.runDirectory);
    chmodSync(run.runDirectory, 0o770);
    await expect(runs.loadRunFile(run.runDirectory)).rejects.toMatchObject({ code: "denied" });
  });

  test("a path that the user types must be a real directory below the runs root", () => {
    const run = makeRun();
    mkdirSync(join(dir, "other", RUN_ID), { recursive: true });
    symlinkSync(run.runDirectory, join(state.runsRoot, "alias"));
    expect(runs.runDirAt(state, `${run.runDirectory}/`)).toBe(run.runDirectory);
    expect(runs.runDirAt(state, join(state.runsRoot, "x", "..", RUN_ID))).toBe(run.runDirectory);
    for (const [path, code] of [
      [join(dir, "other", RUN_ID), "outside_root"],
      [join(state.runsRoot, "alias"), "outside_root"],
      [join(run.runDirectory, "attempts"), "outside_root"],
      [state.runsRoot, "outside_root"],
      ["/", "outside_root"],
      [join(state.runsRoot, "nothing"), "run_dir_missing"],
    ] as const) {
      expect(() => runs.runDirAt(state, path)).toThrow(expect.objectContaining({ code }));
    }
  });

  test("listing follows no links and names odd entries", () => {
    makeRun();
    const other = "20250102T030405Z-codex-00000001";
    mkdirSync(join(state.runsRoot, other));
    mkdirSync(join(state.runsRoot, "notes"));
    mkdirSync(join(state.runsRoot, ".trash-1-ab"));
    writeFileSync(join(state.runsRoot, "20250102T030405Z-codex-00000002"), "");
    symlinkSync("/", join(state.runsRoot, "20250102T030405Z-codex-00000003"));
    expect(runs.listRunDirs(state)).toEqual({
      runIds: [other, RUN_ID],
      odd: [
        { path: join(state.runsRoot, "20250102T030405Z-codex-00000002"), why: "it is not a run directory" },
        { path: join(state.runsRoot, "20250102T030405Z-codex-00000003"), why: "it is a symbolic link" },
        { path: join(state.runsRoot, "notes"), why: "it is not a run directory" },
      ],
    });
    rmSync(state.runsRoot, { recursive: true });
    expect(runs.listRunDirs(state)).toEqual({ runIds: [], odd: [] });
  });

  test("removing deletes the directory and never the target of a link", async () => {
    const run = makeRun();
    mkdirSync(join(dir, "precious"));
    writeFileSync(join(dir, "precious", "file"), "");
    symlinkSync(join(dir, "precious"), join(run.runDirectory, "work"));
    cpSync(join(dir, "precious"), join(run.runDirectory, "escrow"), { recursive: true });
    await runs.removeRunDir(state, RUN_ID);
    await runs.removeRunDir(state, RUN_ID);
    expect(readdirSync(state.runsRoot)).toEqual([]);
    expect(existsSync(join(dir, "precious", "file"))).toBe(true);
    await expect(runs.removeRunDir(state, "../precious")).rejects.toMatchObject({ code: "outside_root" });
    await expect(runs.removeRunDir(state, "")).rejects.toMatchObject({ code: "outside_root" });
  });
});
