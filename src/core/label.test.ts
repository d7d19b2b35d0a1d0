import { expect, test } from "vitest";
import { foldedName, type Label, withLaterLabel } from "./label.ts";

const cases: Record<string, [record: Label, other: Label | null, label: Label]> = {
  "no other label changes nothing": [{ name: "a", tags: ["x"] }, null, { name: "a", tags: ["x"] }],
  "a later label replaces name and tags": [
    { name: "a", tags: ["x"] },
    { name: "b", relabelled: 1 },
    { name: "b", relabelled: 1 },
  ],
  "a later label may have no name": [
    { name: "a", relabelled: 1 },
    { name: null, tags: ["y"], relabelled: 2 },
    { name: null, tags: ["y"], relabelled: 2 },
  ],
  "an earlier label changes nothing": [
    { name: "a", relabelled: 2 },
    { name: "b", relabelled: 1 },
    { name: "a", relabelled: 2 },
  ],
  "labels of the same number are the same": [{ name: "a" }, { name: "b" }, { name: "a" }],
};

test.each(Object.entries(cases))("%s", (_name, [record, other, label]) => {
  expect(withLaterLabel({ ...record, status: "x" }, other)).toEqual({ ...label, status: "x" });
});

test("names are compared without case and the blanks around them", () => {
  expect(foldedName(" Cart ÉTÉ ")).toBe(foldedName("cart été"));
});
