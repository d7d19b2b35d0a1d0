/** The run directory is the truth: an older index is repaired from it, and a copied state directory asks before it resumes. */
import { cpSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Sandbox, until } from "../e2e/sandbox.ts";

type Run = { handle: string; attempts: number; status: string; session: { value: string } };

const BEHIND = /the index was older than the run directories/g;

/** The index's generation as it is noted outside it, now and in earlier versions. */
function stamps(at: Sandbox): string[] {
  return ["", "runs"].flatMap((folder) =>
    readdirSync(join(at.state, folder))
      .filter((name) => /^\.?generation\.\d+$/.test(name))
      .map((name) => join(folder, name)),
  );
}

/** The index of this moment with its stamp, as they are put back later. */
function keepIndex(at: Sandbox): () => void {
  const names = ["index.db", ...stamps(at)];
  const away = join(at.root, "kept");
  for (const name of names) cpSync(join(at.state, name), join(away, name));
  return () => {
    for (const name of [...stamps(at), "index.db", "index.db-wal", "index.db-shm"])
      rmSync(join(at.state, name), { force: true });
    for (const name of names) cpSync(join(away, name), join(at.state, name));
  };
}

/** A run whose second attempt began a new conversation, a new run and a removed one, none of it in the index. */
let box: Sandbox;
let kept: string;
let old: string;
let newer: string;
let removed: string;

beforeAll(async () => {
  box = new Sandbox();
  [old, removed] = [await start(box, "one"), await start(box, "two")];
  kept = join(box.root, "index.kept");
  cpSync(join(box.state, "index.db"), kept);
  await box.run(["resume", old, "--force-fresh", "again"]);
  newer = await start(box, "three");
  await box.run(["rm", removed]);
}, 60_000);

afterAll(() => box[Symbol.dispose]());

beforeEach(() => {
  for (const end of ["-wal", "-shm"]) rmSync(join(box.state, `index.db${end}`), { force: true });
  cpSync(kept, join(box.state, "index.db"));
});

async function start(at: Sandbox, text: string, engine = "demo"): Promise<string> {
  const { handle } = await at.json<{ handle: string }>(["start", engine, text]);
  return handle;
}

function directoryOf(handle: string): string {
  return box.runDirectories().find((path) => path.endsWith(handle)) ?? "";
}

function recorded(handle: string): Run {
  return JSON.parse(readFileSync(join(directoryOf(handle), "run.json"), "utf8")) as Run;
}

test("list shows the runs of the run directories after an older index was put back, and says so once", async () => {
  const first = await box.run(["list", "--json"]);
  const { runs } = JSON.parse(first.stdout) as { runs: Run[] };
  expect(runs.map(({ handle }) => handle)).toEqual([newer, old]);
  expect(runs.at(-1)).toMatchObject(recorded(old));
  expect(first.stderr.match(BEHIND)).toHaveLength(1);
  expect(first.stderr.trim().split("\n")).toHaveLength(1);
  const second = await box.run(["list", "--json"]);
  expect({ ...second, stdout: JSON.parse(second.stdout) as unknown }).toMatchObject({
    stdout: { runs },
    stderr: "",
  });
  expect(await box.run(["show", removed])).toMatchObject({ code: 3 });
}, 60_000);

test("doctor names an older index once, and has nothing more to report about it afterwards", async () => {
  const { findings } = await box.json<{ findings: { about: string; what: string }[] }>(["doctor"]);
  const about = findings.filter(({ about: what }) => what === "index" || what === "runs");
  expect(about.map(({ what }) => what)).toEqual([expect.stringMatching(BEHIND)]);
  expect((await box.run(["doctor"])).stdout).not.toMatch(BEHIND);
}, 60_000);

test.each([
  ["with", true],
  ["without", false],
])(
  "resume continues the newest session under a new attempt number after an older index was put back, %s the stamp",
  async (_name, stamped) => {
    if (!stamped) for (const name of stamps(box)) rmSync(join(box.state, name));
    const { session, attempts } = recorded(old);
    const meta = join(directoryOf(old), "attempts", String(attempts), "meta.json");
    const before = readFileSync(meta, "utf8");
    const result = await box.json(["resume", old, "go on"]);
    expect(result).toMatchObject({
      attempt: attempts + 1,
      receipt: { asked: session.value, reported: session.value },
    });
    expect(readdirSync(join(directoryOf(old), "attempts"))).toHaveLength(attempts + 1);
    expect(readFileSync(meta, "utf8")).toBe(before);
  },
  60_000,
);

test("an older index that was put back together with its stamp is noticed, and its live runs keep their sessions", async () => {
  using own = new Sandbox();
  const first = await start(own, "remember 4711", "claude");
  const putBack = keepIndex(own);
  const { session } = await own.json<Run>(["show", first]);
  // No new run directory, and a session that somebody works on.
  const live = own.spawn(["resume", first, "go on @@hang"]);
  try {
    live.stdin?.end();
    await until("the agent works", () => own.journalEntries().some(({ event }) => event === "hang"));
    const starts = own.journalEntries().filter(({ event }) => event === "start").length;
    // An owner that writes to the older index finds its lease gone, and ends its agent.
    live.kill("SIGSTOP");
    putBack();
    const stolen = await own.run(["start", "claude", "steal", "--", "--resume", session.value]);
    expect([stolen.code, stolen.stderr]).toEqual([4, expect.stringContaining(`session ${session.value}`)]);
    expect(own.journalEntries().filter(({ event }) => event === "start")).toHaveLength(starts);
    putBack();
    const newest = await start(own, "a newer run");
    putBack();
    const listed = await own.run(["list", "--json"]);
    const { runs } = JSON.parse(listed.stdout) as { runs: Run[] };
    expect(runs.map(({ handle, attempts }) => [handle, attempts])).toEqual([
      [newest, 1],
      [first, 2],
    ]);
    expect(listed.stderr.match(BEHIND)).toHaveLength(1);
    expect((await own.run(["list"])).stderr).toBe("");
  } finally {
    live.kill("SIGKILL");
  }
}, 60_000);

const COPY = /state directory .* is a copy/;

test("a copied state directory starts new runs, but touches the original's runs only after its user allows it", async () => {
  using own = new Sandbox();
  // Not demo, whose sessions are in the state directory.
  const handle = await start(own, "one", "codex");
  const copy = join(own.root, "copy");
  cpSync(own.state, copy, { recursive: true, preserveTimestamps: true });
  const there = { env: { REPRISE_HOME: copy } };
  expect(await own.run(["start", "codex", "new"], there)).toMatchObject({ code: 0 });
  // Somebody may be in a session that is named.
  const named = ["start", "claude", "go on", "--", "--resume", "0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e"];
  expect(await own.run(named, there)).toMatchObject({ code: 8 });
  expect(await own.run(["list"], there)).toMatchObject({ code: 0, stderr: "" });
  const told = own.journalEntries().length;
  for (const args of [
    ["resume", handle, "go on"],
    ["resume", handle, "--fork", "go on"],
    ["start", "codex", "--run-dir", handle, "go on"],
    ["daemon", "start"],
    ["stop", handle],
    ["rm", handle],
    ["prune", "--older-than", "1m"],
  ]) {
    const result = await own.run(args, there);
    expect(result, args.join(" ")).toMatchObject({ code: 8 });
    expect(result.stderr).toMatch(COPY);
    expect(result.stderr).toContain(`The original, ${own.state},`);
    expect(result.stderr).toContain("reprise doctor --accept-copy");
  }
  expect(own.journalEntries()).toHaveLength(told);
  expect((await own.run(["doctor"], there)).stdout).toContain("reprise doctor --accept-copy");
  expect(await own.run(["resume", handle, "in the original"])).toMatchObject({ code: 0 });
  expect((await own.run(["doctor", "--accept-copy"], there)).stdout).not.toContain("is a copy");
  expect(await own.run(["resume", handle, "in the copy"], there)).toMatchObject({ code: 0 });
}, 60_000);

test("a renamed state directory continues by itself, and any real or possible copy of it asks", async () => {
  using own = new Sandbox();
  const handle = await start(own, "one", "codex");
  const [moved, copy] = [join(own.root, "moved"), join(own.root, "copy")];
  const at = (state: string, ...args: string[]) => own.run(args, { env: { REPRISE_HOME: state } });
  const resume = (state: string) => at(state, "resume", handle, "go on");
  renameSync(own.state, moved);
  expect(await resume(moved)).toMatchObject({ code: 0 });
  cpSync(moved, copy, { recursive: true });
  const refused = await resume(copy);
  expect(refused).toMatchObject({ code: 8 });
  expect(refused.stderr).toContain(`The original, ${moved},`);
  // Between file systems a move is a copy whose original goes, and so is a copy whose original was renamed.
  renameSync(moved, own.state);
  expect((await resume(copy)).stderr).toContain(`was copied or moved here from ${moved}. Nothing shows`);
  expect(await resume(own.state)).toMatchObject({ code: 0 });
  expect((await at(copy, "doctor", "--accept-copy")).stdout).not.toContain("was copied");
  expect(await resume(copy)).toMatchObject({ code: 0 });
}, 60_000);
