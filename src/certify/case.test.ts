import { expect, test } from "vitest";
import { CERTIFY_CASES, loadCases } from "./case.ts";
import { LABS } from "./labs.ts";

const cases = loadCases(
  LABS.map(({ id }) => id),
  [CERTIFY_CASES],
);

test("doctor --certify has eight checks for each engine, and each says what it proves", () => {
  for (const { id } of LABS) {
    const own = cases.filter(({ lab }) => lab === id);
    expect(new Set(own.map(({ certify }) => certify))).toHaveProperty("size", 8);
    expect(own.filter(({ certify }) => certify === null)).toEqual([]);
  }
});

test.each(cases)("$id asks for nothing that only the conformance suite has", ({ steps }) => {
  const acts = ["delete-session", "wipe-home"];
  for (const { start, resume, do: act, interrupt } of steps) {
    const talk = start ?? resume;
    expect([talk?.terminal, talk?.human]).toEqual([undefined, undefined]);
    expect(interrupt?.who).not.toBe("terminal");
    if (act !== undefined) expect(acts).toContain(act);
  }
});
