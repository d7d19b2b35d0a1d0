/** What an agent wrote in its copy of an issue's file, brought into the file itself. */
import { expect, test } from "vitest";
import { joinCopy } from "./markdown.ts";

const HEAD = "---\ntitle: T\nstatus: open\n---\n";
const BODY = "Do it\n- [ ] one\n- [ ] two\n";
const NOTE = "\n> **reprise** 2026-01-02T03:04:05Z: Done by demo (reprise run 1a2b3c4d).\n";
const CLOSED = "---\ntitle: T\nstatus: closed\n---\n";
const ticked = BODY.replace("[ ] one", "[x] one");

const CASES: readonly (readonly [what: string, text: string, now: string, joined: string | null])[] = [
  ["a ticked box, above our note", CLOSED + BODY + NOTE, HEAD + ticked, CLOSED + ticked + NOTE],
  [
    "words at the end, above our note",
    CLOSED + BODY + NOTE,
    `${HEAD}${BODY}Found a bug.\n`,
    `${CLOSED}${BODY}Found a bug.\n${NOTE}`,
  ],
  ["nothing", CLOSED + BODY + NOTE, HEAD + BODY, CLOSED + BODY + NOTE],
  [
    "a status, which is ours to set",
    CLOSED + BODY + NOTE,
    CLOSED.replace("closed", "done") + BODY,
    CLOSED + BODY + NOTE,
  ],
  ["a ticked box that is ticked already", CLOSED + ticked + NOTE, HEAD + ticked, CLOSED + ticked + NOTE],
  [
    "a ticked box beside another change of a person's",
    CLOSED + BODY.replace("Do it", "Do it well") + NOTE,
    HEAD + ticked,
    CLOSED + ticked.replace("Do it", "Do it well") + NOTE,
  ],
  [
    "other words beside another change of a person's",
    CLOSED + BODY.replace("Do it", "Do it well"),
    HEAD + BODY.replace("Do it", "Done"),
    null,
  ],
  ["a ticked box that a person has taken out", CLOSED + BODY.replace("- [ ] one\n", ""), HEAD + ticked, null],
  ["another title", CLOSED + BODY + NOTE, HEAD.replace("T", "U") + BODY, null],
  ["no front matter any more", CLOSED + BODY + NOTE, BODY, null],
];

test.each(CASES)("the copy got %s", (_, text, now, joined) => {
  expect(joinCopy(text, { was: HEAD + BODY, now })).toBe(joined);
});
