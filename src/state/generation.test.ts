import { chmodSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { generationMark } from "./generation.ts";
import { openState } from "./directory.ts";

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-generation-")));
  mkdirSync(join(root, "runs"), { mode: 0o700 });
});
afterEach(() => {
  chmodSync(root, 0o700);
  rmSync(root, { recursive: true });
});

const there = (...numbers: number[]) => {
  for (const n of numbers) writeFileSync(join(root, "runs", `.generation.${n}`), "");
};

describe("the noted generation", () => {
  test.each<[what: string, before: number[], raise: [number, number], after: string[]]>([
    ["begins with the first one", [], [0, 1], [".generation.1"]],
    ["begins where an index that counts already is", [], [7, 8], [".generation.8"]],
    ["takes the next name", [7], [7, 8], [".generation.8"]],
    ["fills a gap that a crash left", [6], [7, 8], [".generation.8"]],
    ["stays where another process was faster", [9], [7, 8], [".generation.9"]],
    [
      "is the larger of two that a copied directory left, and the smaller one goes",
      [3, 7],
      [5, 6],
      [".generation.7"],
    ],
  ])("%s", (_what, before, [from, to], after) => {
    there(...before);
    const mark = generationMark(root);
    mark.raise(from, to);
    expect(readdirSync(join(root, "runs"))).toEqual(after);
    expect(mark.has(mark.read())).toBe(true);
  });

  test("is the only value that opening the state directory passes on", async () => {
    there(9, 12);
    for (const name of ["generation.", "generation.x", "generation.013", "generation.99.tmp", "reserve"])
      writeFileSync(join(root, name), "");
    for (const name of [".generation.", ".generation.013", ".generation.99.tmp"])
      writeFileSync(join(root, "runs", name), "");
    expect((await openState(root)).generation).toBe(12);
  });

  test("beside the index, written by an earlier version, counts until the next one is noted", async () => {
    writeFileSync(join(root, "generation.7"), "");
    const mark = generationMark(root);
    expect([mark.has(7), mark.read(), (await openState(root)).generation]).toEqual([false, 7, 7]);
    mark.raise(7, 8);
    expect([readdirSync(join(root, "runs")), mark.read()]).toEqual([[".generation.8"], 8]);
    expect(readdirSync(root)).not.toContain("generation.7");
  });

  test("stays unchanged where nothing can be written", () => {
    there(7);
    const mark = generationMark(join(root, "runs", ".generation.7"));
    expect(() => mark.raise(7, 8)).not.toThrow();
    expect(readdirSync(join(root, "runs"))).toEqual([".generation.7"]);
  });
});
