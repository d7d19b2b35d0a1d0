/** Runs the contract cases on every backend. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { contractCases } from "../../test/contracts/store.ts";
import { eventLike, documentLike, runLike } from "../../test/contracts/store-samples.ts";
import { memoryStore } from "../../test/contracts/memory-store.ts";
import type { Mark } from "./contract.ts";
import { openStore } from "./store.ts";

const cases = contractCases();
const folder = mkdtempSync(join(tmpdir(), "reprise-store-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the contract suite has cases", () => expect(cases.length).toBeGreaterThanOrEqual(35));

describe("memory", () => {
  test.each(cases)("$name", async ({ run }) => {
    await using store = memoryStore();
    await run(store, async () => store);
  });
});

describe("sqlite", () => {
  test.each(cases.map((each, n) => ({ ...each, path: join(folder, `${n}.db`) })))(
    "$name",
    async ({ run, path }) => {
      await using store = await openStore(path);
      await run(store, async () => openStore(path));
      expect(await store.verify()).toEqual([]);
    },
  );
});

describe("the generation of an index", () => {
  /** Like the mark beside the index, but in memory. */
  const markAt = (noted: { n: number }): Mark => ({
    has: (n) => n === noted.n,
    read: () => noted.n,
    raise: (_from, to) => void (noted.n = Math.max(noted.n, to)),
  });

  test("is noted after the index has it, so that a crash in between leaves a trusted index", async () => {
    const path = join(folder, "crash.db");
    const noted = { n: 0 };
    const crash = {
      ...markAt(noted),
      raise: () => {
        throw new Error("killed");
      },
    };
    {
      await using store = await openStore(path, { mark: crash });
      await expect(store.createRun(runLike(1))).rejects.toThrow("killed");
    }
    await using next = await openStore(path, { mark: markAt(noted) });
    expect([noted.n, await next.generation()]).toEqual([0, 1]);
    await next.createRun(runLike(2));
    expect([noted.n, await next.generation()]).toEqual([2, 2]);
  });

  test("that is smaller than the noted one refuses every change that counts, except those of its repair", async () => {
    const path = join(folder, "older.db");
    const noted = { n: 0 };
    {
      await using store = await openStore(path, { mark: markAt(noted) });
      await store.createRun(runLike(1));
    }
    copyFileSync(path, `${path}.kept`);
    noted.n = 5;
    await using older = await openStore(`${path}.kept`, { mark: markAt(noted) });
    const refused = expect.objectContaining({ code: "index_damaged" });
    const changes = [
      () => older.createRun(runLike(2)),
      () => older.deleteRun(runLike(1).runId),
      () => older.appendEvent(eventLike()),
      () => older.saveDocument(documentLike(), null),
    ];
    for (const change of changes) await expect(change()).rejects.toEqual(refused);
    await older.repairing(() => older.createRun(runLike(2)));
    // An interruption here would start the repair over.
    expect([noted.n, await older.generation()]).toEqual([5, 1]);
    await older.raiseGeneration(5);
    await older.createRun(runLike(3));
    expect([noted.n, await older.generation()]).toEqual([6, 6]);
  });
});
