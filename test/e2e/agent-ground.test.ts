/** What holders and the supervisor stand on is taken away under them: agents are watched again, and no second one begins. */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";

const RUNBOOK = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
on_dead = { action = "resume", message = "go on", append = true }
`;

async function working(): Promise<{ box: AgentBox; id: string; pid: number }> {
  const box = new AgentBox();
  box.runbook(RUNBOOK);
  const id = await box.start("worker");
  return { box, id, pid: await box.told() };
}

/** It is still watched: killed, it goes on in its conversation, once. */
async function expectWatched(box: AgentBox, pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  await box.until("the second turn", () => box.messages().length >= 2);
  expect(box.messages()).toEqual(["work @@wait:600000", "go on"]);
}

const runtime = (box: AgentBox) => join(box.state, "run");
const inRuntime = (box: AgentBox, fits: RegExp) =>
  readdirSync(runtime(box)).filter((name) => fits.test(name));

test("the supervisor restores its socket and its token", async () => {
  const { box, pid } = await working();
  await using _box = box;
  const daemon = await box.daemonPid();
  for (const name of ["d.sock", "d.token"]) rmSync(join(runtime(box), name));
  await box.until("both", () => inRuntime(box, /^d\.(sock|token)$/).length === 2);
  expect(await box.daemonPid()).toBe(daemon);
  await expectWatched(box, pid);
}, 60_000);

test("a removed runtime directory comes back: one supervisor, and holders that can be reached", async () => {
  const { box, id, pid } = await working();
  await using _box = box;
  const daemon = await box.daemonPid();
  rmSync(runtime(box), { recursive: true });
  await box.until(
    "a holder's files",
    () => existsSync(runtime(box)) && inRuntime(box, /^h-.*(sock|json)$/).length === 2,
  );
  await box.until("another supervisor", () => existsSync(join(runtime(box), "d.sock")));
  await box.shown(id, "working", ({ view }) => view.state === "working");
  expect(await box.daemonPid()).not.toBe(daemon);
  await box.until("the first one to be gone", () => !existsSync(`/proc/${daemon}`));
  await expectWatched(box, pid);
}, 60_000);

test("a holder writes its record again when it became garbage", async () => {
  const { box, id, pid } = await working();
  await using _box = box;
  const record = join(runtime(box), `h-${id}.json`);
  writeFileSync(record, "{");
  rmSync(join(runtime(box), `h-${id}.sock`));
  await box.until("its socket", () => existsSync(join(runtime(box), `h-${id}.sock`)));
  expect((await box.run(["agent", "peek", id])).code).toBe(0);
  await expectWatched(box, pid);
}, 60_000);

test("a holder that cannot be reached ends its agent without a request, so a person is asked", async () => {
  const { box, id, pid } = await working();
  await using _box = box;
  process.kill((await box.daemonPid()) ?? 0, "SIGKILL");
  process.kill(pid, "SIGKILL");
  const socket = join(runtime(box), `h-${id}.sock`);
  await box.until("its holder to be gone", () => !existsSync(socket));
  mkdirSync(socket);
  await box.run(["daemon", "start"]);
  const { attempts } = await box.shown(id, "asked", ({ view }) => view.decision !== null);
  expect(attempts.map(({ outcome }) => outcome?.result)).toEqual(["interrupted", "interrupted"]);
});

test("an agent that was ended for a resume, and whose directory is gone, did not end on request, so a person is asked", async () => {
  await using box = new AgentBox();
  box.runbook(`${RUNBOOK.replace(/on_dead.*/, "")}cwd = "place"`);
  mkdirSync(join(box.cwd, "place"));
  const id = await box.start("worker");
  await box.told();
  rmSync(join(box.cwd, "place"), { recursive: true });
  const { resumed, skipped } = await box.agent<{ resumed: string[]; skipped: { reason: string }[] }>([
    "resume",
    id,
    "--kill",
  ]);
  expect([resumed, skipped.map(({ reason }) => reason)]).toEqual([[], [expect.stringContaining("place")]]);
  const { attempts, view } = await box.shown(id, "asked", (shown) => shown.view.decision !== null);
  expect([attempts.map(({ outcome }) => outcome?.result), view.phase]).toEqual([["interrupted"], "active"]);
});

test.each([
  ["the index", /^index\.db/],
  ["the index's write-ahead log", /^index\.db-(wal|shm)$/],
])(
  "%s: the supervisor starts over and continues watching",
  async (_name, fits) => {
    const { box, pid } = await working();
    await using _box = box;
    const daemon = await box.daemonPid();
    for (const name of readdirSync(box.state).filter((file) => fits.test(file)))
      rmSync(join(box.state, name));
    await box.until("the first supervisor to be gone", () => !existsSync(`/proc/${daemon}`));
    await expectWatched(box, pid);
  },
  60_000,
);

test("a state directory that was moved away has no supervisor any more", async () => {
  const { box } = await working();
  await using _box = box;
  const daemon = await box.daemonPid();
  renameSync(box.state, `${box.state}-moved`);
  await box.until("the supervisor to be gone", () => !existsSync(`/proc/${daemon}`));
  expect(existsSync(box.state)).toBe(false);
  renameSync(`${box.state}-moved`, box.state);
}, 60_000);

test("a start that another process finishes trusts the folder as the user said", async () => {
  await using box = new AgentBox();
  box.runbook(RUNBOOK);
  const id = await box.start("worker");
  await box.told();
  const { agent } = await box.show(id);
  await box.run(["daemon", "stop"]);
  await box.run(["stop", id]);
  // As if its starter had died right after it was recorded.
  const index = new DatabaseSync(join(box.state, "index.db"));
  for (const table of ["runs", "attempts", "events"])
    index.exec(`DELETE FROM ${table} WHERE run_id = '${agent.runId}'`);
  index.close();
  rmSync(join(box.state, "runs", agent.runId), { recursive: true });
  await box.run(["daemon", "start"]);
  await box.until("the start is finished", () => box.events("start").length === 2);
  expect(await box.json(["show", id])).toMatchObject({ launch: { trustCwd: true } });
}, 60_000);
