/** Contract cases of leases, of the event log, and of two stores on the same data. */
import assert from "node:assert/strict";
import {
  alive,
  dead,
  eventLike,
  fill,
  hold,
  NASTY,
  ownerLike,
  refused,
  runLike,
  type Cases,
} from "./store-samples.ts";
import type { LeaseOwner } from "../../src/store/store.ts";

export const LEASES: Cases = {
  "the first holder gets fence 1": async (store) => {
    const lease = { key: "k", fence: 1, owner: ownerLike(1) };
    assert.equal(await store.getLease("k"), null);
    assert.deepEqual(await store.acquireLease("k", ownerLike(1), alive), { held: true, lease });
    assert.deepEqual(await store.getLease("k"), lease);
  },
  "a live owner keeps it": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    const by = { key: "k", fence: 1, owner: ownerLike(1) };
    assert.deepEqual(await store.acquireLease("k", ownerLike(2), alive), { held: false, by });
    assert.deepEqual(await store.getLease("k"), by);
  },
  "a dead owner is replaced, and the fence grows": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    const asked: LeaseOwner[] = [];
    const answer = await store.acquireLease("k", ownerLike(2), (owner) => asked.push(owner) === 0);
    assert.deepEqual(answer, { held: true, lease: { key: "k", fence: 2, owner: ownerLike(2) } });
    assert.deepEqual(asked, [ownerLike(1)]);
  },
  "the owner's own process is busy too": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    const answer = await store.acquireLease("k", ownerLike(1, { renewedAtMs: 9 }), dead);
    assert.deepEqual(answer, { held: false, by: { key: "k", fence: 1, owner: ownerLike(1) } });
  },
  "the same pid is another process after a reboot, reuse or elsewhere": async (store) => {
    const others = [{ boot: "c" }, { start: "101" }, { space: "t" }, { machine: "n" }];
    for (const [index, other] of others.entries()) {
      await store.acquireLease(`k${index}`, ownerLike(1), alive);
      const answer = await store.acquireLease(`k${index}`, ownerLike(1, other), dead);
      assert.deepEqual([answer.held, (await store.getLease(`k${index}`))?.fence], [true, 2]);
    }
  },
  "a released lease is free, and fences never go back": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    await store.releaseLease("k", 1);
    assert.equal(await store.getLease("k"), null);
    const answer = await store.acquireLease("k", ownerLike(1), alive);
    assert.deepEqual(answer, { held: true, lease: { key: "k", fence: 2, owner: ownerLike(1) } });
  },
  "a stale fence releases nothing": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    await store.acquireLease("k", ownerLike(2), dead);
    await store.releaseLease("k", 1);
    assert.equal((await store.getLease("k"))?.owner.pid, 2);
    await store.releaseLease("unknown", 1);
    assert.equal(await store.getLease("unknown"), null);
  },
  "renewing sets the time, for the holder alone": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    assert.equal(await store.renewLease("k", 1, 77), true);
    assert.deepEqual((await store.getLease("k"))?.owner, ownerLike(1, { renewedAtMs: 77 }));
    assert.equal(await store.renewLease("k", 2, 88), false);
    assert.equal(await store.renewLease("unknown", 1, 88), false);
    await store.releaseLease("k", 1);
    assert.equal(await store.renewLease("k", 1, 88), false);
  },
  "leases of different keys do not meet": async (store) => {
    for (const key of ["run:a", "run:b", "session:codex:a", NASTY]) {
      assert.equal((await store.acquireLease(key, ownerLike(1), alive)).held, true);
      assert.equal((await store.getLease(key))?.key, key);
    }
  },
  "every lease that somebody holds is listed, and none that was let go of": async (store) => {
    for (const key of ["run:a", "session:codex:a", NASTY]) await store.acquireLease(key, ownerLike(1), alive);
    await store.acquireLease("run:b", ownerLike(2), alive);
    await store.releaseLease("run:a", 1);
    const held = (await store.listLeases()).map(({ key, fence, owner }) => [key, fence, owner.pid]);
    assert.deepEqual(
      new Map(held.map((lease) => [lease[0], lease])),
      new Map([
        ["session:codex:a", ["session:codex:a", 1, 1]],
        [NASTY, [NASTY, 1, 1]],
        ["run:b", ["run:b", 1, 2]],
      ]),
    );
  },
  "an owner that cannot be judged changes nothing": async (store) => {
    await store.acquireLease("k", ownerLike(1), alive);
    const judge = () => {
      throw new Error("no /proc");
    };
    await assert.rejects(store.acquireLease("k", ownerLike(2), judge), /no \/proc/);
    assert.deepEqual(await store.getLease("k"), { key: "k", fence: 1, owner: ownerLike(1) });
  },
};

export const EVENTS: Cases = {
  "events come back in order, each run its own": async (store) => {
    const other = runLike(2).runId;
    assert.equal(await store.appendEvent(eventLike()), 1);
    assert.equal(await store.appendEvent(eventLike({ runId: other })), 2);
    assert.equal(await store.appendEvent(eventLike({ attempt: null, kind: "acted" })), 3);
    assert.deepEqual(await store.listEvents(eventLike().runId), [
      { ...eventLike(), seq: 1 },
      { ...eventLike({ attempt: null, kind: "acted" }), seq: 3 },
    ]);
    assert.deepEqual(await store.listEvents(other), [{ ...eventLike({ runId: other }), seq: 2 }]);
    assert.deepEqual(await store.verify(), []);
  },
  "only those after a number": async (store) => {
    for (let n = 0; n < 5; n += 1) await store.appendEvent(eventLike({ payload: { n } }));
    assert.deepEqual(
      (await store.listEvents(eventLike().runId, 3)).map(({ seq }) => seq),
      [4, 5],
    );
    assert.deepEqual(await store.listEvents(eventLike().runId, 5), []);
  },
  "a key is written once, whatever the run": async (store) => {
    assert.equal(await store.appendEvent(eventLike({ key: "k" })), 1);
    assert.equal(await store.appendEvent(eventLike({ key: "k", kind: "other" })), null);
    assert.equal(await store.appendEvent(eventLike({ key: "k", runId: runLike(2).runId })), null);
    assert.equal(await store.appendEvent(eventLike({ key: "K" })), 2);
    assert.deepEqual(
      (await store.listEvents(eventLike().runId)).map(({ kind }) => kind),
      ["decided", "decided"],
    );
  },
  "events without a key may repeat": async (store) => {
    assert.equal(await store.appendEvent(eventLike()), 1);
    assert.equal(await store.appendEvent(eventLike()), 2);
  },
  "any text and a megabyte survive": async (store) => {
    const event = eventLike({
      kind: NASTY,
      key: NASTY,
      payload: { [NASTY]: NASTY, big: "é\u0000".repeat(500_000) },
    });
    await store.appendEvent(event);
    assert.deepEqual(await store.listEvents(event.runId), [{ ...event, seq: 1 }]);
    assert.equal(await store.appendEvent(event), null);
    assert.deepEqual(await store.verify(), []);
  },
};

export const SHARING: Cases = {
  "what one store writes, the other reads": async (store, again) => {
    await using other = await again();
    await fill(store, [runLike(1)]);
    assert.deepEqual(await other.getRun(runLike(1).runId), runLike(1));
    assert.equal(await other.createRun(runLike(1)), "handle_taken");
  },
  "two stores that race for a lease have one winner": async (store, again) => {
    await using other = await again();
    for (let n = 0; n < 10; n += 1) {
      const tries = [store, other].map(async (each, pid) =>
        each.acquireLease(`k${n}`, ownerLike(pid), alive),
      );
      const held = (await Promise.all(tries)).filter((answer) => answer.held);
      assert.equal(held.length, 1);
    }
  },
  "two stores append to one unbroken log": async (store, again) => {
    await using other = await again();
    const tries = Array.from({ length: 20 }, async (_, n) =>
      (n % 2 === 0 ? store : other).appendEvent(eventLike({ key: `k${n % 10}` })),
    );
    const seqs = (await Promise.all(tries)).filter((seq) => seq !== null);
    assert.deepEqual(
      seqs.toSorted((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    assert.deepEqual(await store.verify(), []);
  },
  "a fence that the other store moved is refused here": async (store, again) => {
    await using other = await again();
    await fill(store, [runLike(1)]);
    const fence = await hold(store, runLike(1));
    await hold(other, runLike(1), 2);
    await assert.rejects(store.saveRun(runLike(1), fence), refused("lease_lost"));
  },
};
