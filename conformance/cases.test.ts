import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { loadCases } from "../src/certify/case.ts";
import { shortCases, suiteCases } from "./cases.ts";
import { LABS } from "./pinned.ts";

const labs = LABS.map(({ id }) => id);
/** The others are the same code for every engine, and the whole suite has them all. */
const CORE = ["resume", "interruption", "trouble", "stale", "text"];
const short = shortCases();
const cases = suiteCases();

test("every case that does not apply gives a reason", () => {
  for (const { skipped } of cases) expect(skipped).not.toBe("");
});

test("every entry of the short selection names a case that runs", () => {
  const names = cases.filter(({ skipped }) => skipped === null).flatMap(({ id, name }) => [id, name]);
  expect([...short].filter((name) => !names.includes(name))).toEqual([]);
});

test("the short selection covers every group, and for every engine the groups that each resume depends on", () => {
  const pairs = (all: typeof cases) =>
    all.filter(({ skipped }) => skipped === null).map(({ group, lab }) => ({ group, lab }));
  const [chosen, whole] = [pairs(cases.filter((one) => one.short)), pairs(cases)];
  expect(new Set(chosen.map(({ group }) => group))).toEqual(new Set(whole.map(({ group }) => group)));
  const core = (all: typeof chosen) =>
    new Set(all.filter(({ group }) => CORE.includes(group)).map(({ group, lab }) => `${group} of ${lab}`));
  expect(core(chosen)).toEqual(core(whole));
});

test("there are at least 200 cases that run", () => {
  expect(cases.filter(({ skipped }) => skipped === null).length).toBeGreaterThanOrEqual(200);
});

test("a value of `each` replaces its key everywhere", () => {
  expect(cases.filter(({ id }) => id.includes("{"))).toEqual([]);
});

test.each(["rate-limit", "rate-limit-reset", "usage-limit", "quota", "unauthorized", "forbidden"])(
  "%s runs on every engine",
  (name) => {
    expect(cases.filter((one) => one.name === name && one.skipped === null).map(({ lab }) => lab)).toEqual(
      labs,
    );
  },
);

test.each([
  ...["server-error", "overloaded", "context-full", "dropped"],
  ...["silence-before-headers", "silence-after-headers", "connection-refused"],
  ...["no-options", "options-dropped-by-hand", "working-directory"],
  ...["options-after-a-kill", "unknown-session", "message-blanks"],
])("%s runs on every engine", (name) => {
  expect(cases.filter((one) => one.name === name && one.skipped === null).map(({ lab }) => lab)).toEqual(
    labs,
  );
});

test.each(LABS)("$id proves each kind of option, or says why not", ({ options }) => {
  const said = [...options.evidence.map(({ what }) => what), ...Object.keys(options.lacking)];
  const mode = ["sandbox", "permission mode", "approval mode", "agent"];
  expect(said).toEqual(expect.arrayContaining(["model", "extra directory", "config override"]));
  expect(said.filter((what) => mode.includes(what))).toHaveLength(1);
});

test.each([
  ["[{]", "JSON"],
  ['{"name":"x"}', "array"],
  ['[{"name":"x"}]', '"x": '],
])("loading a case file that says %s fails and names the file", (text, says) => {
  const folder = mkdtempSync(join(tmpdir(), "cases-"));
  writeFileSync(join(folder, "7-odd.json"), text);
  const load = () => loadCases(labs, [pathToFileURL(`${folder}/`)]);
  expect(load).toThrow(join(folder, "7-odd.json: "));
  expect(load).toThrow(says);
  rmSync(folder, { recursive: true });
});
