/** Runs the conformance cases on every backend. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { conformanceCases } from "./conformance.ts";
import { memoryStore, openStore } from "./store.ts";

const cases = conformanceCases();
const folder = mkdtempSync(join(tmpdir(), "reprise-store-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the suite has its cases", () => expect(cases.length).toBeGreaterThanOrEqual(35));

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
