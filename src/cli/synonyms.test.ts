import { describe, expect, test } from "vitest";
import { COMMANDS } from "./commands.ts";
import { ALIASES, meant } from "./synonyms.ts";

const NAMES = Object.keys(COMMANDS);
const AGENT = ["run", "list", "show", "logs", "peek", "attach", "send", "stop", "resume"];

describe("commands", () => {
  test.each([
    ["run", "start"],
    ["ls", "list"],
    ["ps", "list"],
    ["history", "list"],
    ["continue", "resume"],
    ["kill", "stop"],
    ["cancel", "stop"],
    ["delete", "rm"],
    ["remove", "rm"],
    ["LIST", "list"],
    ["strat", "start"],
    ["delte", "rm"],
    ["contineu", "resume"],
    ["clean", "prune"],
    ["log", "logs"],
    ["top", "status"],
    ["issue", "issues"],
    ["lst", "list"],
    ["rn", null],
    ["rum", null],
    ["em", null],
    ["tm", null],
    ["xy", null],
    ["", null],
    ["frobnicate", null],
  ])("%s means %s", (word, then) => expect(meant(word, NAMES)).toBe(then));
});

test.each([
  ["start", "run"],
  ["ls", "list"],
  ["kill", "stop"],
  ["tell", "send"],
  ["continue", "resume"],
  ["lost", "list"],
  ["delete", null],
])("for an agent, %s means %s", (word, then) => expect(meant(word, AGENT)).toBe(then));

test("no word of two or three letters leads to a removal, except words for removal", () => {
  const letters = "abcdefghijklmnopqrstuvwxyz".split("");
  const two = letters.flatMap((a) => letters.map((b) => `${a}${b}`));
  const three = two.flatMap((word) => ["r", "d", "m"].map((c) => (c === "m" ? `${word}m` : `${c}${word}`)));
  const wrong = [...two, ...three].filter((word) => ["rm", "prune"].includes(meant(word, NAMES) ?? ""));
  expect(wrong.filter((word) => !["rm", "del", "gc"].includes(word))).toEqual([]);
});

test("an alias stands for a command, and never for another alias", () => {
  for (const [alias, name] of Object.entries(ALIASES)) {
    expect(NAMES).toContain(name);
    expect(NAMES).not.toContain(alias);
  }
});
