/** From a level of access to the native options that hold an agent without a UI to it. Knows no engine. */
import type { Access } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import type { Engine } from "./engine.ts";
import { describe, type Given, parseArgs, scaleOf } from "./grammar.ts";

export interface HeldAccess {
  readonly level: Access;
  /** To be put in front of what the user gives. */
  readonly options: readonly string[];
  /** The user's own option that decides instead; null: none does. */
  readonly by: string | null;
}

/** `given`: native arguments of the config and of the user, which come first. Throws where the engine has no such level. */
export function accessOptions(engine: Engine, level: Access, given: readonly string[]): HeldAccess {
  const modes = engine.access ?? { edit: [] };
  const own = ownMode(engine, given);
  if (own !== null) return { level, options: [], by: describe([own]).join(" ") };
  const options = modes[level];
  if (options !== undefined) return { level, options, by: null };
  const known = (["read", "edit", "full"] as const).filter((one) => modes[one] !== undefined);
  throw new Fault(
    "engine_cannot",
    `${engine.title} cannot be held to access "${level}" by an option that Reprise knows. It has: ${known.join(", ")}. ` +
      "Give its own options after --, or choose another level.",
    { facts: { engine: engine.id, access: level, known } },
  );
}

/** The first option given that sets what a level would set. */
function ownMode(engine: Engine, given: readonly string[]): Given | null {
  const { unless = [], ...levels } = engine.access ?? {};
  const ours = Object.values(levels).flatMap((words) => parseArgs(engine.grammar, words, true).options);
  const scales = new Set(ours.map(scaleOf).filter((scale) => scale !== null));
  const sets = (option: Given) =>
    scales.has(scaleOf(option) ?? "") ||
    ours.some(({ spec }) => spec !== null && spec === option.spec) ||
    unless.some((name) => option.spec?.names.includes(name) === true);
  return parseArgs(engine.grammar, given, true).options.find(sets) ?? null;
}
