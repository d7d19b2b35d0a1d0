/**
 * The contract of `Store`, as data: a backend's test gives each case an empty store and runs it.
 *
 * Knows only the interface. A case fails by throwing (`node:assert`), so any test runner can run it.
 */
import assert from "node:assert/strict";
import type { Tokens } from "../../src/core/events.ts";
import type { RunRecord } from "../../src/core/records.ts";
import { DOCUMENTS } from "./store-documents.ts";
import { EVENTS, LEASES, SHARING } from "./store-leases.ts";
import { attemptLike, eventLike, fill, hold, NASTY, refused, runLike, type Cases } from "./store-samples.ts";
import type { RunFilter, Store } from "../../src/store/store.ts";

export interface ContractCase {
  readonly name: string;
  /** `store` is empty. `again` opens the same data a second time. */
  readonly run: (store: Store, again: () => Promise<Store>) => Promise<void>;
}

export function contractCases(): readonly ContractCase[] {
  const groups = {
    runs: RUNS,
    labels: LABELS,
    orders: ORDERS,
    lists: LISTS,
    attempts: ATTEMPTS,
    leases: LEASES,
    events: EVENTS,
    documents: DOCUMENTS,
    sharing: SHARING,
  };
  return Object.entries(groups).flatMap(([group, cases]) =>
    Object.entries(cases).map(([name, run]) => ({ name: `${group}: ${name}`, run })),
  );
}

async function handles(store: Store, filter: RunFilter): Promise<readonly string[]> {
  return (await store.listRuns(filter)).map(({ handle }) => handle);
}

const LABELS: Cases = {
  "a label is changed without a lease, and filters see it": async (store) => {
    const run = runLike(1, { name: "old", tags: ["a"] });
    await fill(store, [run]);
    await hold(store, run);
    await store.labelRun(run.runId, { name: "new", tags: ["b", "c"], relabelled: 1 });
    assert.deepEqual(await store.getRun(run.runId), { ...run, name: "new", tags: ["b", "c"], relabelled: 1 });
    assert.deepEqual(await handles(store, { name: "old" }), []);
    assert.deepEqual(await handles(store, { name: "new", tags: ["c", "b"] }), [run.handle]);
    assert.deepEqual(await handles(store, { tags: ["b", "a"] }), []);
  },
  "an owner that knows an older label does not undo the later one": async (store) => {
    const run = runLike(1, { name: "old" });
    await fill(store, [run]);
    const fence = await hold(store, run);
    await store.labelRun(run.runId, { name: "new", relabelled: 1 });
    await store.saveRun({ ...run, status: "completed" }, fence);
    assert.deepEqual(await store.getRun(run.runId), {
      ...run,
      status: "completed",
      name: "new",
      relabelled: 1,
    });
    assert.deepEqual(await handles(store, { name: "new" }), [run.handle]);
  },
  "an older label changes nothing": async (store) => {
    const run = runLike(1, { name: "new", relabelled: 2 });
    await fill(store, [run]);
    await store.labelRun(run.runId, { name: "old", relabelled: 1 });
    assert.deepEqual(await store.getRun(run.runId), run);
  },
  "a run that is not there has no label": async (store) => {
    await assert.rejects(
      store.labelRun(runLike(1).runId, { name: "x", relabelled: 1 }),
      refused("handle_unknown"),
    );
  },
  "names come once each": async (store) => {
    await fill(store, [
      runLike(1, { name: "b" }),
      runLike(2, { name: NASTY }),
      runLike(3, { name: "b" }),
      runLike(4),
    ]);
    assert.deepEqual([...(await store.listNames())].toSorted(), ["b", NASTY].toSorted());
  },
};

const ORDERS: Cases = {
  "runs come by their last change": async (store) => {
    const late = new Date(Date.UTC(2027, 0, 1)).toISOString();
    await fill(store, [runLike(1, { updatedAt: late }), runLike(2), runLike(3)]);
    assert.deepEqual(await handles(store, { sort: "updated" }), ["00000001", "00000003", "00000002"]);
    assert.deepEqual(await handles(store, { sort: "updated", limit: 1 }), ["00000001"]);
    assert.deepEqual(await handles(store, { sort: "created" }), ["00000003", "00000002", "00000001"]);
  },
  "runs come by the tokens and by the time of all their attempts": async (store) => {
    const [one, two, three] = [runLike(1), runLike(2), runLike(3)];
    await fill(store, [one, two, three]);
    const ended = (run: RunRecord, n: number, input: number, seconds: number) =>
      store.saveAttempt(
        attemptLike(run, n, {
          tokens: { input, output: 1 },
          endedAt: new Date(Date.parse(run.createdAt) + seconds * 1000).toISOString(),
        }),
      );
    await ended(one, 1, 5, 30);
    await ended(one, 2, 6, 30);
    await ended(two, 1, 10, 70);
    assert.deepEqual(await handles(store, { sort: "tokens" }), [one.handle, two.handle, three.handle]);
    assert.deepEqual(await handles(store, { sort: "duration" }), [two.handle, one.handle, three.handle]);
  },
  "several directories, words and a test in code narrow a list before its limit": async (store) => {
    await fill(store, [
      runLike(1, { cwd: "/a" }),
      runLike(2, { cwd: `/${NASTY}`, name: "Cart" }),
      runLike(3, { cwd: "/c" }),
    ]);
    assert.deepEqual(await handles(store, { cwds: ["/a", `/${NASTY}`] }), ["00000002", "00000001"]);
    assert.deepEqual(await handles(store, { cwds: [] }), []);
    assert.deepEqual(await handles(store, { mentions: "cArT" }), ["00000002"]);
    const matches = ({ cwd }: RunRecord) => cwd !== "/c";
    assert.deepEqual(await handles(store, { matches, limit: 1 }), ["00000002"]);
  },
};

const RUNS: Cases = {
  "a run comes back as it was written": async (store) => {
    const run = runLike(1, { subject: "issue:a/b#1", name: "first" });
    assert.equal(await store.createRun(run), "created");
    assert.deepEqual(await store.getRun(run.runId), run);
  },
  "an unknown run is null": async (store) => {
    assert.equal(await store.getRun(runLike(1).runId), null);
    assert.equal(await store.getRun(""), null);
  },
  "a taken handle is refused and the first run stays": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    assert.equal(await store.createRun(runLike(2, { handle: run.handle })), "handle_taken");
    assert.equal(await store.createRun({ ...run, status: "failed" }), "handle_taken");
    assert.deepEqual(await store.listRuns({}), [run]);
    assert.deepEqual(await store.unknownRuns([run.runId, "x", runLike(2).runId]), ["x", runLike(2).runId]);
  },
  "saving replaces the whole record": async (store) => {
    const run = runLike(1, { name: "old", subject: "agent:a" });
    await fill(store, [run, runLike(2)]);
    const saved: RunRecord = {
      ...run,
      name: null,
      subject: "agent:b",
      status: "completed",
      cwd: "/elsewhere",
    };
    await store.saveRun(saved);
    assert.deepEqual(await store.getRun(run.runId), saved);
    assert.deepEqual(await store.getRun(runLike(2).runId), runLike(2));
  },
  "saved fields are what filters see": async (store) => {
    const run = runLike(1, { name: "old" });
    await fill(store, [run]);
    await store.saveRun({ ...run, name: "new", status: "failed" });
    assert.deepEqual(await handles(store, { name: "old" }), []);
    assert.deepEqual(await handles(store, { name: "new", status: "failed" }), [run.handle]);
  },
  "a run that is not there cannot be saved": async (store) => {
    await assert.rejects(store.saveRun(runLike(1)), refused("handle_unknown"));
    assert.deepEqual(await store.listRuns({}), []);
  },
  "saving with the present fence works, with another it is refused": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const fence = await hold(store, run);
    await store.saveRun({ ...run, status: "failed" }, fence);
    const next = await hold(store, run, 2);
    await assert.rejects(store.saveRun({ ...run, status: "completed" }, fence), refused("lease_lost"));
    assert.equal((await store.getRun(run.runId))?.status, "failed");
    await store.saveRun({ ...run, status: "completed" }, next);
    assert.equal((await store.getRun(run.runId))?.status, "completed");
  },
  "a fence without any lease is refused": async (store) => {
    await fill(store, [runLike(1)]);
    await assert.rejects(store.saveRun(runLike(1), 1), refused("lease_lost"));
  },
  "a released lease still lets its last holder save": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const fence = await hold(store, run);
    await store.releaseLease(`run:${run.runId}`, fence);
    await store.saveRun({ ...run, status: "failed" }, fence);
    assert.equal((await store.getRun(run.runId))?.status, "failed");
  },
  "deleting takes attempts and lease along, and keeps the events": async (store) => {
    const run = runLike(1);
    await fill(store, [run, runLike(2)]);
    await store.createAttempt(attemptLike(run, 1), await hold(store, run));
    await store.appendEvent(eventLike());
    await store.deleteRun(run.runId);
    assert.equal(await store.getRun(run.runId), null);
    assert.deepEqual(await store.listAttempts(run.runId), []);
    assert.equal(await store.getLease(`run:${run.runId}`), null);
    assert.equal((await store.listEvents(run.runId)).length, 1);
    assert.deepEqual(await store.listRuns({}), [runLike(2)]);
  },
  "deleting what is not there does nothing": async (store) => {
    await store.deleteRun(runLike(1).runId);
    assert.deepEqual(await store.listRuns({}), []);
  },
  "a deleted run's handle is free again": async (store) => {
    await fill(store, [runLike(1)]);
    await store.deleteRun(runLike(1).runId);
    assert.equal(await store.createRun(runLike(2, { handle: runLike(1).handle })), "created");
  },
  "any text survives": async (store) => {
    const run = runLike(1, { name: NASTY, cwd: `/${NASTY}`, subject: NASTY, agentName: "demo" });
    await fill(store, [run]);
    assert.deepEqual(await store.getRun(run.runId), run);
    assert.deepEqual(await store.listRuns({ name: NASTY, cwd: `/${NASTY}`, subject: NASTY }), [run]);
    assert.deepEqual(await store.listRuns({ name: "' OR 1=1 --" }), []);
    assert.deepEqual(await store.verify(), []);
  },
  "a record of a megabyte survives": async (store) => {
    const run = runLike(1);
    const big = { ...run, launch: { ...run.launch, message: "é\u0000".repeat(500_000) } };
    await fill(store, [big]);
    assert.deepEqual(await store.getRun(run.runId), big);
  },
  "the caller's objects are not kept": async (store) => {
    const args = ["one"];
    const run = runLike(1, { launch: { ...runLike(1).launch, args } });
    await fill(store, [run]);
    args.push("two");
    assert.deepEqual((await store.getRun(run.runId))?.launch.args, ["one"]);
  },
};

const LISTS: Cases = {
  "an empty store lists nothing": async (store) => {
    assert.deepEqual(await store.listRuns({}), []);
    assert.deepEqual(await store.findByHandle("0000"), []);
  },
  "newest first, and 50 unless told": async (store) => {
    const runs = Array.from({ length: 60 }, (_, n) => runLike(n));
    await fill(
      store,
      runs.toSorted((a, b) => a.handle.slice(-1).localeCompare(b.handle.slice(-1))),
    );
    assert.deepEqual(await store.listRuns({}), runs.toReversed().slice(0, 50));
    assert.deepEqual(await handles(store, { limit: 2 }), [runLike(59).handle, runLike(58).handle]);
    assert.equal((await store.listRuns({ limit: Number.POSITIVE_INFINITY })).length, 60);
    assert.equal((await store.listRuns({ limit: 0 })).length, 0);
  },
  "a list can be read in parts, also between runs of the same moment": async (store) => {
    const { createdAt } = runLike(9);
    const runs = [1, 2, 3, 4, 5].map((n) => runLike(n, n < 4 ? { createdAt } : {}));
    await fill(store, runs);
    const all = await store.listRuns({});
    for (const [at, after] of all.entries())
      assert.deepEqual(await store.listRuns({ after, limit: 2 }), all.slice(at + 1, at + 3));
    const [first] = all;
    assert.ok(first);
    assert.deepEqual(await store.listRuns({ after: first, status: "failed" }), []);
  },
  "a list by the last change can be read in parts as well": async (store) => {
    const { updatedAt } = runLike(9);
    const runs = [1, 2, 3, 4, 5].map((n) =>
      runLike(n, { updatedAt: n < 4 ? updatedAt : runLike(20 - n).updatedAt }),
    );
    await fill(store, runs);
    const all = await store.listRuns({ sort: "updated" });
    assert.deepEqual(
      all.map(({ handle }) => Number.parseInt(handle, 16)),
      [4, 5, 3, 2, 1],
    );
    for (const [at, after] of all.entries())
      assert.deepEqual(await store.listRuns({ sort: "updated", after, limit: 2 }), all.slice(at + 1, at + 3));
  },
  "runs are counted by status, with the filters of a list": async (store) => {
    assert.deepEqual(await store.countRuns({}), {});
    const failed = { status: "failed", cwd: "/a/b", tags: ["x"] } as const;
    await fill(store, [runLike(1), runLike(2, failed), runLike(3, { ...failed, cwd: "/a" })]);
    assert.deepEqual(await store.countRuns({}), { running: 1, failed: 2 });
    assert.deepEqual(await store.countRuns({ below: "/a" }), { failed: 1 });
    assert.deepEqual(await store.countRuns({ cwds: ["/a", "/a/b"], tags: ["x"] }), { failed: 2 });
    assert.deepEqual(await store.countRuns({ status: "running", engine: "codex" }), { running: 1 });
    assert.deepEqual(await store.countRuns({ engine: "nobody" }), {});
  },
  "the run id breaks a tie": async (store) => {
    const { createdAt } = runLike(9);
    await fill(store, [runLike(2, { createdAt }), runLike(3, { createdAt }), runLike(1, { createdAt })]);
    assert.deepEqual(
      await handles(store, {}),
      [3, 2, 1].map((n) => runLike(n).handle),
    );
  },
  "each filter alone and all together": async (store) => {
    const odd = { agentName: "claude", status: "failed", cwd: "/b", subject: "agent:x", name: "n" } as const;
    await fill(store, [runLike(1), runLike(2, odd), runLike(3), runLike(4, { agentName: "claude" })]);
    const two = [runLike(2).handle];
    assert.deepEqual(await handles(store, { engine: "claude" }), [runLike(4).handle, ...two]);
    assert.deepEqual(await handles(store, { status: "failed" }), two);
    assert.deepEqual(await handles(store, { cwd: "/b" }), two);
    assert.deepEqual(await handles(store, { subject: "agent:x" }), two);
    assert.deepEqual(await handles(store, { name: "n" }), two);
    const { agentName: engine, ...rest } = odd;
    assert.deepEqual(await handles(store, { engine, ...rest }), two);
    assert.deepEqual(await handles(store, { engine: "codex", name: "n" }), []);
  },
  "the runs that work below a directory, that directory excluded": async (store) => {
    const places = ["/a/b", "/a/b/c", "/a/b/c/d/ü", "/a/b0", "/a/b-", "/a/b.c/d", "/a"];
    await fill(
      store,
      places.map((cwd, at) => runLike(at + 1, { cwd })),
    );
    const found = await store.listRuns({ below: "/a/b", limit: Number.POSITIVE_INFINITY });
    assert.deepEqual(found.map(({ cwd }) => cwd).toSorted(), ["/a/b/c", "/a/b/c/d/ü"]);
  },
  "updated before a moment, that moment excluded": async (store) => {
    await fill(store, [runLike(1), runLike(2), runLike(3)]);
    assert.deepEqual(await handles(store, { updatedBefore: runLike(2).updatedAt }), [runLike(1).handle]);
  },
  "a handle is found by itself and by any prefix": async (store) => {
    await fill(store, [runLike(1, { handle: "abcd1234" }), runLike(2, { handle: "abce0000" })]);
    const found = async (prefix: string) => (await store.findByHandle(prefix)).map(({ handle }) => handle);
    assert.deepEqual(await found("abcd1234"), ["abcd1234"]);
    assert.deepEqual(await found("abc"), ["abce0000", "abcd1234"]);
    assert.deepEqual(await found("abcd"), ["abcd1234"]);
    assert.deepEqual(await found("abcd12345"), []);
    assert.deepEqual(await found("bcd1"), []);
    assert.deepEqual(await found("ABCD"), []);
    assert.deepEqual(await found("abc%"), []);
  },
  "a prefix that fits many gives the newest 20": async (store) => {
    await fill(
      store,
      Array.from({ length: 25 }, (_, n) => runLike(n)),
    );
    const found = await store.findByHandle("0000");
    assert.deepEqual([found.length, found[0]?.handle], [20, runLike(24).handle]);
  },
};

const ATTEMPTS: Cases = {
  "an attempt comes back, and the run counts it and says that it is running": async (store) => {
    const run = runLike(1, { status: "interrupted" });
    await fill(store, [run]);
    assert.equal(await store.createAttempt(attemptLike(run, 1), await hold(store, run)), true);
    assert.deepEqual(await store.listAttempts(run.runId), [attemptLike(run, 1)]);
    assert.deepEqual(await store.getRun(run.runId), { ...run, attempts: 1, status: "running" });
    assert.deepEqual(await store.verify(), []);
  },
  "the same number again is refused and changes nothing": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const fence = await hold(store, run);
    await store.createAttempt(attemptLike(run, 1), fence);
    assert.equal(await store.createAttempt(attemptLike(run, 1, { message: "other" }), fence), false);
    assert.deepEqual(await store.listAttempts(run.runId), [attemptLike(run, 1)]);
  },
  "a stale fence makes no attempt": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const stale = await hold(store, run);
    await hold(store, run, 2);
    await assert.rejects(store.createAttempt(attemptLike(run, 1), stale), refused("lease_lost"));
    assert.deepEqual(await store.listAttempts(run.runId), []);
    assert.equal((await store.getRun(run.runId))?.attempts, 0);
  },
  "an attempt needs its run": async (store) => {
    const run = runLike(1);
    const fence = await hold(store, run);
    await assert.rejects(store.createAttempt(attemptLike(run, 1), fence), refused("handle_unknown"));
    await assert.rejects(store.saveAttempt(attemptLike(run, 1)), refused("handle_unknown"));
  },
  "attempts are listed oldest first, by number": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const fence = await hold(store, run);
    for (const n of [2, 10, 1]) await store.createAttempt(attemptLike(run, n), fence);
    assert.deepEqual(
      (await store.listAttempts(run.runId)).map(({ n }) => n),
      [1, 2, 10],
    );
  },
  "attempts of all runs since a moment come with the names of their runs, oldest first": async (store) => {
    const [old, first, second] = [runLike(1), runLike(2, { agentName: NASTY }), runLike(3)];
    await fill(store, [second, old, first]);
    for (const run of [second, old, first]) {
      for (const n of [2, 1]) await store.saveAttempt(attemptLike(run, n, { startedAt: run.createdAt }));
    }
    const found = async (since: string) =>
      (await store.attemptsSince(since)).map(({ handle, agentName, attempt }) => [
        handle,
        agentName,
        attempt.n,
      ]);
    assert.deepEqual(await found(first.createdAt), [
      [first.handle, NASTY, 1],
      [first.handle, NASTY, 2],
      [second.handle, "codex", 1],
      [second.handle, "codex", 2],
    ]);
    assert.equal((await found("")).length, 6);
    assert.deepEqual(await found("2027-01-01T00:00:00.000Z"), []);
  },
  "the limit of a run is that of its last attempt": async (store) => {
    const failed = { status: "failed" } as const;
    const [limited, passed, other] = [runLike(1, failed), runLike(2, failed), runLike(3, failed)];
    const live = runLike(4, { status: "running" });
    await fill(store, [limited, passed, other, live]);
    const resetsAt = "2026-11-18T18:00:00.000Z";
    const hit = (kind: "rate_limited" | "quota" | "auth", at?: string) => ({
      state: "ended" as const,
      outcome: {
        result: "failed" as const,
        reason: NASTY,
        trouble: { kind, message: NASTY, ...(at === undefined ? {} : { resetsAt: at }) },
      },
    });
    await store.saveAttempt(attemptLike(limited, 1));
    await store.saveAttempt(attemptLike(limited, 2, hit("rate_limited", resetsAt)));
    await store.saveAttempt(attemptLike(passed, 1, hit("quota")));
    await store.saveAttempt(attemptLike(passed, 2));
    await store.saveAttempt(attemptLike(other, 1, hit("auth")));
    await store.saveAttempt(attemptLike(live, 1, hit("quota")));
    const all = [limited, passed, other, live].map(({ runId }) => runId);
    const found = await store.limitsOf([...all, "unknown"]);
    assert.deepEqual([...found].toSorted(), [
      [limited.runId, { kind: "rate_limited", resetsAt }],
      [live.runId, { kind: "quota", resetsAt: null }],
    ]);
    assert.deepEqual([...(await store.limitsOf([]))], []);
    const listed = await store.listRuns({ limited: true });
    assert.deepEqual(
      listed.map(({ runId }) => runId),
      [limited.runId],
    );
  },
  "the tokens of a run are those of all its attempts": async (store) => {
    const [priced, plain, none] = [runLike(1), runLike(2), runLike(3)];
    await fill(store, [priced, plain, none]);
    const used = (tokens: Tokens | null) => ({ state: "ended" as const, tokens });
    await store.saveAttempt(attemptLike(priced, 1, used({ input: 5, output: 1, cached: 3, costUsd: 0.5 })));
    await store.saveAttempt(attemptLike(priced, 2, used({ input: 7, output: 2 })));
    await store.saveAttempt(attemptLike(plain, 1, used({ input: 1, output: 0 })));
    await store.saveAttempt(attemptLike(plain, 2, used(null)));
    await store.saveAttempt(attemptLike(none, 1, used(null)));
    const found = await store.tokensOf([priced.runId, plain.runId, none.runId, "unknown"]);
    assert.deepEqual([...found].toSorted(), [
      [priced.runId, { input: 12, output: 3, costUsd: 0.5 }],
      [plain.runId, { input: 1, output: 0 }],
    ]);
  },
  "saving replaces one attempt, within the fence": async (store) => {
    const run = runLike(1);
    await fill(store, [run]);
    const fence = await hold(store, run);
    for (const n of [1, 2]) await store.createAttempt(attemptLike(run, n), fence);
    const ended = attemptLike(run, 1, { state: "ended", exit: { code: 1, signal: null } });
    await store.saveAttempt(ended, fence);
    assert.deepEqual(await store.listAttempts(run.runId), [ended, attemptLike(run, 2)]);
    await assert.rejects(store.saveAttempt(attemptLike(run, 1), fence + 1), refused("lease_lost"));
    assert.deepEqual(await store.listAttempts(run.runId), [ended, attemptLike(run, 2)]);
  },
  "saving adds an attempt that is not there": async (store) => {
    const run = runLike(1, { attempts: 1 });
    await fill(store, [run]);
    await store.saveAttempt(attemptLike(run, 1, { state: "ended" }));
    assert.deepEqual(await store.listAttempts(run.runId), [attemptLike(run, 1, { state: "ended" })]);
  },
};
