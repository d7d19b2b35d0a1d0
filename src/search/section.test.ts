import { expect, test } from "vitest";
import type { JsonObject } from "../lib/json.ts";
import { type Section, Sections } from "./section.ts";

function sectionsOf(...events: JsonObject[]): Section[] {
  const found: Section[] = [];
  const sections = new Sections((section) => found.push(section));
  for (const event of events) sections.event(event, 1_000);
  sections.end();
  return found;
}

test("messages, answers, tool calls and notices become lines with their kind", () => {
  const found = sectionsOf(
    { type: "text", text: "one\n\ntwo", t: 5 },
    { type: "tool", state: "started", id: "1", name: "edit", detail: "src/cart.ts", t: 9 },
    { type: "tool", state: "ended", id: "1", name: "edit", detail: "src/cart.ts" },
    { type: "tool", state: "ended", id: "2", name: "read", detail: "b.ts" },
    { type: "notice", message: "denied" },
    { type: "turn_ended", result: "failed", trouble: { message: "limit" }, t: 20 },
  );
  expect(found).toEqual([
    {
      fromMs: 1_005,
      untilMs: 1_020,
      kinds: "aattnn",
      text: "one\ntwo\nedit src/cart.ts\nread b.ts\ndenied\nlimit",
    },
  ]);
});

test("a recorded message is not indexed again: the record of its attempt or the session has it", () => {
  const found: Section[] = [];
  const sections = new Sections((section) => found.push(section));
  sections.add("message", "fix it", 0);
  sections.event({ t: 0, type: "message", text: "fix it", opening: true }, 0);
  sections.event({ t: 5, type: "tool", state: "started", id: "1", name: "sh", detail: "make" }, 0);
  sections.event({ t: 6, type: "tool", state: "ended", id: "1", name: "sh", output: "made" }, 0);
  sections.end();
  expect(found.map(({ text }) => text)).toEqual(["fix it\nsh make"]);
});

test("pieces of one answer are joined", () => {
  const [section] = sectionsOf({ type: "text", text: "rena" }, { type: "text", text: "me", delta: true });
  expect(section?.text).toBe("rename");
});

test("a long text is several sections of bounded size, and a long line several lines", () => {
  const found = sectionsOf({ type: "text", text: `${"word ".repeat(10_000)}\n${"x".repeat(20_000)}` });
  expect(found.length).toBeGreaterThan(5);
  for (const { text, kinds } of found) {
    expect(text.length).toBeLessThan(13_000);
    expect(kinds).toHaveLength(text.split("\n").length);
  }
});
