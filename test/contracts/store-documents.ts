/** Contract cases of documents: compare-and-set, order, and that nothing written by others is lost. */
import assert from "node:assert/strict";
import { documentLike, fill, NASTY, runLike, type Cases } from "./store-samples.ts";
import type { Store } from "../../src/store/store.ts";

const ids = async (store: Store, kind: string, filter?: { readonly open?: boolean }) =>
  (await store.listDocuments(kind, filter)).map(({ id }) => id);

export const DOCUMENTS: Cases = {
  "a document comes back as it was written, with its version": async (store) => {
    assert.equal(await store.saveDocument(documentLike(), null), 1);
    assert.deepEqual(await store.getDocument("agent", "00000001"), { ...documentLike(), version: 1 });
    assert.deepEqual(await store.listDocuments("agent"), [{ ...documentLike(), version: 1 }]);
  },
  "an unknown document is null": async (store) => {
    await store.saveDocument(documentLike(), null);
    assert.equal(await store.getDocument("agent", "0000000"), null);
    assert.equal(await store.getDocument("decision", "00000001"), null);
    assert.deepEqual(await store.listDocuments("decision"), []);
  },
  "a change from the present version counts it up": async (store) => {
    await store.saveDocument(documentLike(), null);
    const changed = documentLike({ open: false, data: { phase: "done" } });
    assert.equal(await store.saveDocument(changed, 1), 2);
    assert.equal(await store.saveDocument(changed, 2), 3);
    assert.deepEqual(await store.getDocument("agent", "00000001"), { ...changed, version: 3 });
  },
  "a change from any other version is refused and changes nothing": async (store) => {
    await store.saveDocument(documentLike(), null);
    for (const expected of [null, 0, 2, -1]) {
      assert.equal(await store.saveDocument(documentLike({ data: { n: 2 } }), expected), null);
    }
    assert.deepEqual(await store.listDocuments("agent"), [{ ...documentLike(), version: 1 }]);
  },
  "what is not there cannot be changed": async (store) => {
    assert.equal(await store.saveDocument(documentLike(), 1), null);
    assert.equal(await store.saveDocument(documentLike(), 0), null);
    assert.deepEqual(await store.listDocuments("agent"), []);
  },
  "a document that was deleted is gone, alone, and may be made again": async (store) => {
    for (const id of ["a", "b"]) await store.saveDocument(documentLike({ id }), null);
    await store.saveDocument(documentLike({ kind: "decision", id: "a" }), null);
    await store.deleteDocument("agent", "a");
    await store.deleteDocument("agent", "never");
    assert.equal(await store.getDocument("agent", "a"), null);
    assert.deepEqual([await ids(store, "agent"), await ids(store, "decision")], [["b"], ["a"]]);
    assert.deepEqual(await store.verify(), []);
    assert.equal(await store.saveDocument(documentLike({ id: "a" }), null), 1);
    assert.deepEqual(await ids(store, "agent"), ["b", "a"]);
  },
  "kinds do not share ids": async (store) => {
    await store.saveDocument(documentLike(), null);
    assert.equal(await store.saveDocument(documentLike({ kind: "decision", data: { n: 1 } }), null), 1);
    assert.equal(await store.saveDocument(documentLike({ kind: "decision", data: { n: 2 } }), 1), 2);
    assert.deepEqual(await store.getDocument("agent", "00000001"), { ...documentLike(), version: 1 });
  },
  "lists are oldest first, whatever was changed since, and by what is open": async (store) => {
    for (const id of ["c", "a", "d", "b"]) await store.saveDocument(documentLike({ id }), null);
    await store.saveDocument(documentLike({ id: "c", data: { n: 2 } }), 1);
    await store.saveDocument(documentLike({ id: "a", open: false }), 1);
    await store.saveDocument(documentLike({ kind: "decision", id: "x" }), null);
    assert.deepEqual(await ids(store, "agent"), ["c", "a", "d", "b"]);
    assert.deepEqual(await ids(store, "agent", {}), ["c", "a", "d", "b"]);
    assert.deepEqual(await ids(store, "agent", { open: true }), ["c", "d", "b"]);
    assert.deepEqual(await ids(store, "agent", { open: false }), ["a"]);
  },
  "fields that nobody here knows are kept": async (store) => {
    const data = { v: 9, later: { deep: [1, { x: null }] }, phase: "asleep" };
    await store.saveDocument(documentLike({ data }), null);
    assert.deepEqual((await store.getDocument("agent", "00000001"))?.data, data);
  },
  "any text and a megabyte survive": async (store) => {
    const nasty = documentLike({
      kind: NASTY,
      id: NASTY,
      data: { [NASTY]: NASTY, big: "é\u0000".repeat(500_000) },
    });
    assert.equal(await store.saveDocument(nasty, null), 1);
    assert.deepEqual(await store.getDocument(NASTY, NASTY), { ...nasty, version: 1 });
    assert.deepEqual(await store.listDocuments(NASTY), [{ ...nasty, version: 1 }]);
    assert.deepEqual(await store.verify(), []);
  },
  "the caller's objects are not kept": async (store) => {
    const list = ["one"];
    await store.saveDocument(documentLike({ data: { list } }), null);
    list.push("two");
    assert.deepEqual((await store.getDocument("agent", "00000001"))?.data, { list: ["one"] });
  },
  "a deleted run leaves its documents": async (store) => {
    await fill(store, [runLike(1)]);
    await store.saveDocument(documentLike({ id: runLike(1).handle }), null);
    await store.deleteRun(runLike(1).runId);
    assert.deepEqual(await ids(store, "agent"), [runLike(1).handle]);
  },
  "every change of which runs, attempts, events and documents there are counts one generation, and nothing else does":
    async (store, again) => {
      const run = runLike(1);
      const seen: number[] = [await store.generation()];
      const after = async (work: () => Promise<unknown>) => {
        await work();
        seen.push(await store.generation());
      };
      await after(() => store.createRun(run));
      await after(() => store.createRun(run));
      await after(() => store.saveDocument(documentLike(), null));
      await after(() => store.saveDocument(documentLike(), null));
      await after(() => store.saveRun(run));
      await after(() => store.deleteDocument("agent", "00000001"));
      await after(() => store.deleteDocument("agent", "00000001"));
      await after(() => store.deleteRun(run.runId));
      assert.deepEqual(seen, [0, 1, 1, 2, 2, 2, 3, 3, 4]);
      await using other = await again();
      assert.equal(await other.generation(), 4);
    },
  "a generation is raised, never lowered": async (store) => {
    await store.raiseGeneration(7);
    await store.raiseGeneration(3);
    assert.equal(await store.generation(), 7);
    await store.createRun(runLike(1));
    assert.equal(await store.generation(), 8);
  },
  "two stores that race to make or change one have one winner": async (store, again) => {
    await using other = await again();
    for (let version = 0; version < 10; version += 1) {
      const tries = [store, other].map(async (each, by) =>
        each.saveDocument(documentLike({ data: { by, version } }), version === 0 ? null : version),
      );
      const answers = await Promise.all(tries);
      assert.deepEqual(
        answers.filter((answer) => answer !== null),
        [version + 1],
      );
      const by = answers.findIndex((answer) => answer !== null);
      for (const each of [store, other]) {
        assert.deepEqual((await each.getDocument("agent", "00000001"))?.data, { by, version });
      }
    }
  },
};
