import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseDiff } from "./diff.ts";

const PATCH = `diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,3 +1,3 @@ export const a
 one
-two
+--- not a heading
 three
\\ No newline at end of file
diff --git a/old.md b/new.md
similarity index 90%
rename from old.md
rename to new.md
diff --git a/x.png b/x.png
new file mode 100644
Binary files /dev/null and b/x.png differ
`;

test("a diff is files, hunks and numbered lines", () => {
  expect(parseDiff(PATCH)).toEqual([
    {
      ...{ path: "src/a.ts", notes: [], added: 1, deleted: 1 },
      hunks: [
        {
          heading: "export const a",
          lines: [
            { kind: "same", old: 1, new: 1, text: "one" },
            { kind: "deleted", old: 2, new: null, text: "two" },
            { kind: "added", old: null, new: 2, text: "--- not a heading" },
            { kind: "same", old: 3, new: 3, text: "three" },
            { kind: "note", old: null, new: null, text: "No newline at end of file" },
          ],
        },
      ],
    },
    {
      ...{ path: "new.md", added: 0, deleted: 0, hunks: [] },
      notes: ["similarity index 90%", "rename from old.md", "rename to new.md"],
    },
    {
      ...{ path: "x.png", added: 0, deleted: 0, hunks: [] },
      notes: ["new file mode 100644", "Binary files /dev/null and b/x.png differ"],
    },
  ]);
});

test("a hunk of one line without counts is read", () => {
  const [file] = parseDiff("diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+hello\n");
  expect(file).toMatchObject({ path: "n", added: 1, deleted: 0 });
});

test("any text is survived", () => {
  const line = fc.constantFrom(
    "diff --git a/x b/x",
    "@@ -1 +1 @@",
    "@@",
    "+a",
    "-b",
    " c",
    "\\ no",
    "",
    "zzz",
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      expect(() => parseDiff(lines.join("\n"))).not.toThrow();
    }),
  );
  expect(parseDiff("no diff at all")).toEqual([]);
});
