import { expect, test } from "vitest";
import { questionIn } from "./codex-questions.ts";

const CWD = "/home/user/work";

test("a question about files holds the diff of each, as it is known when it is asked", () => {
  // Each kind of change as Codex 0.166.0 sends it.
  const changes = [
    {
      path: `${CWD}/a.ts`,
      kind: { type: "update", move_path: null },
      diff: "@@ -1 +1 @@\n-old\n+new\n\\ No newline at end of file\n",
    },
    { path: `${CWD}/gone.txt`, kind: { type: "delete" }, diff: "removed\n\nlast\n" },
    { path: `${CWD}/new.txt`, kind: { type: "add" }, diff: "@@ -1 +1 @@\n looks like a diff\n" },
    {
      path: `${CWD}/old.txt`,
      kind: { type: "update", move_path: `${CWD}/moved.txt` },
      diff: `@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n\n\nMoved to: ${CWD}/moved.txt`,
    },
    { path: `${CWD}/empty.txt`, kind: { type: "add" }, diff: "" },
  ];
  const items = new Map([["f", { type: "fileChange", id: "f", changes }]]);
  const asked = questionIn(0, "item/fileChange/requestApproval", { itemId: "f" }, { cwd: CWD, items });
  expect(asked?.question.changes).toEqual([
    { what: "update a.ts", diff: "@@ -1 +1 @@\n-old\n+new\n\\ No newline at end of file" },
    { what: "delete gone.txt", diff: "-removed\n-\n-last" },
    { what: "add new.txt", diff: "+@@ -1 +1 @@\n+ looks like a diff" },
    { what: "update old.txt → moved.txt", diff: "@@ -1,2 +1,2 @@\n one\n-two\n+zwei" },
    { what: "add empty.txt", diff: "" },
  ]);
});

test("changes that Codex did not announce have no diff, and the question says so", () => {
  const known = { cwd: CWD, items: new Map() };
  const asked = questionIn(0, "item/fileChange/requestApproval", { itemId: "f" }, known);
  expect(asked?.question).toMatchObject({ what: "changes to files that Codex did not name" });
  expect(asked?.question).not.toHaveProperty("changes");
});
