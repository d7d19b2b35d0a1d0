/** The cases of the suite: those of `cases/*.json`, and those of `doctor --certify`. */
import { readFileSync } from "node:fs";
import { CERTIFY_CASES, type CaseInstance, loadCases } from "../src/certify/case.ts";
import { LABS } from "./pinned.ts";

/** The short selection: names of cases, or ids (`name@engine`). */
export function shortCases(): ReadonlySet<string> {
  const file = new URL("./short.json", import.meta.url);
  return new Set(JSON.parse(readFileSync(file, "utf8")) as readonly string[]);
}

export function suiteCases(): readonly CaseInstance[] {
  const labs = LABS.map(({ id }) => id);
  return loadCases(labs, [new URL("./cases/", import.meta.url), CERTIFY_CASES], shortCases());
}
