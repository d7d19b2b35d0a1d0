/** Help fits a terminal of 24 lines and 80 columns, and names only commands and topics that exist. */
import { describe, expect, test } from "vitest";
import { widthOf } from "../../lib/width.ts";
import { COMMANDS } from "../commands.ts";
import { overview, topicText } from "./help.ts";
import { manualPage, roff, sectionOf } from "./man.ts";
import { partsOf, TOPICS } from "./topics.ts";

const plain = (text: string) => text;

describe("the overview", () => {
  const lines = overview(Object.entries(COMMANDS), plain).split("\n");

  test("fits 23 lines of 80 columns, above the prompt", () => {
    expect(lines.length).toBeLessThanOrEqual(23);
    expect(lines.filter((line) => widthOf(line) > 80)).toEqual([]);
  });

  test("names every command", () => {
    const words = lines.join(" ").split(/[\s,]+/);
    expect(Object.keys(COMMANDS).filter((name) => !words.includes(name))).toEqual([]);
  });

  test("still fits with ten more commands", () => {
    const more = Array.from({ length: 10 }, (_, at) => [
      `command${at}`,
      { group: (["look", "keep", "run", "setup"] as const)[at % 4] ?? "run", summary: "do something" },
    ]) as unknown as Parameters<typeof overview>[0];
    const grown = overview([...Object.entries(COMMANDS), ...more], plain).split("\n");
    expect(grown.length).toBeLessThanOrEqual(24);
    expect(grown.filter((line) => widthOf(line) > 80)).toEqual([]);
  });
});

describe.each(Object.keys(TOPICS))("the topic %s", (name) => {
  const lines = topicText(name).split("\n");

  test("fits 23 lines of 80 columns", () => {
    expect(lines.length).toBeLessThanOrEqual(23);
    expect(lines.filter((line) => widthOf(line) > 80)).toEqual([]);
  });

  test("is not a command, and names only commands and topics that exist", () => {
    expect(Object.hasOwn(COMMANDS, name)).toBe(false);
    const called = [...lines.join("\n").matchAll(/\breprise (?:help )?([a-z][a-z-]*)/g)]
      .filter(([all]) => !all.includes("\n"))
      .map(([all, word = ""]) => ({ word, isTopic: all.includes("help ") }));
    const unknown = called.filter(
      ({ word, isTopic }) => !Object.hasOwn(isTopic ? TOPICS : COMMANDS, word) && word !== "help",
    );
    expect(unknown).toEqual([]);
  });
});

test.each([
  ["joins the lines of a paragraph", "one\ntwo", [{ lines: ["one", "two"], isProse: true }]],
  [
    "keeps indented lines apart",
    "one\n\n  code\nend",
    [
      { lines: ["one"], isProse: true },
      { lines: ["", "  code"], isProse: false },
      { lines: ["end"], isProse: true },
    ],
  ],
])("a topic %s", (_, text, parts) => {
  expect(partsOf(text)).toEqual(parts);
});

describe("the manual page", () => {
  test.each([
    ["a request", ".so /etc/passwd", "\\&.so /etc/passwd"],
    ["a request with an apostrophe", "'ab", "\\(aqab"],
    ["an escape", "a\\*b", "a\\e*b"],
    ["an option", "--dry-run", "\\-\\-dry\\-run"],
    ["a line break", "a\n.so x", "a .so x"],
    ["a sign outside ASCII", "…", "\\[u2026]"],
  ])("shows %s as text", (_, text, written) => {
    expect(roff(text)).toBe(written);
  });

  test("has a section for every declared command, with its options and examples", async () => {
    const page = await manualPage("1.2.3");
    expect(page).toMatch(/^\.TH REPRISE 1 .*1\.2\.3/);
    for (const entry of Object.values(COMMANDS)) {
      const declared = await entry.load();
      if (!("commands" in declared)) expect(page).toContain(sectionOf(declared).join("\n"));
    }
    // Every line that begins with a dot is a request of this page.
    const requests = new Set(page.match(/^[.'].\w*/gm));
    expect([...requests].toSorted()).toEqual(
      [".B", ".I", ".PP", ".SH", ".SS", ".TH", ".TP", ".fi", ".nf"].toSorted(),
    );
  });
});
