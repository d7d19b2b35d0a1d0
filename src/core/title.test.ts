import { expect, test } from "vitest";
import { titleOf } from "./title.ts";

type Titled = Parameters<typeof titleOf>[0];

const titled = (given: Partial<Omit<Titled, "launch">> & { message?: string | null }): Titled =>
  ({
    name: null,
    subject: null,
    ...given,
    launch: { message: given.message ?? null },
  }) as Titled;

const cases: Record<string, [given: Parameters<typeof titled>[0], title: string | null]> = {
  "the name comes first": [{ name: "cart", subject: "issue:shop#1", message: "fix it", title: "t" }, "cart"],
  "the message follows what it is for": [
    { subject: "issue:shop#1", message: "fix it", title: "t" },
    "issue:shop#1: fix it",
  ],
  "a message alone is the title": [{ message: "fix it" }, "fix it"],
  "a conversation in a UI has the title of the engine's store": [
    { title: "rename the cart" },
    "rename the cart",
  ],
  "nothing known is not a title": [{}, null],
  "blanks are not a title": [{ message: " \n " }, null],
  "a title is one line": [{ message: "fix\nthe\tcart" }, "fix the cart"],
  "control characters of a name stay visible text": [{ name: "\u001b]0;x\u0007" }, "\\x1b]0;x\\x07"],
  "control characters of an engine's title stay visible text": [{ title: "a\u001b[2Jb" }, "a\\x1b[2Jb"],
};

test.each(Object.entries(cases))("%s", (_name, [given, title]) => {
  expect(titleOf(titled(given))).toBe(title);
});

test("a huge message gives a short title", () => {
  expect(titleOf(titled({ message: "x".repeat(1_000_000) }))?.length).toBeLessThanOrEqual(200);
});
