/**
 * The rights of a command line's options, and whether a later one has more (I12). The option table defines each option;
 * this file knows no engine.
 */
import { Fault } from "../core/faults.ts";
import { type Given, type Guard, lastWins, OFF, type Parsed } from "./grammar.ts";

export function assertNotWider(recorded: readonly Given[], given: Given): void {
  const why = whyWider(recorded, given);
  if (why === null) return;
  throw new Fault(
    "would_widen",
    `${given.raw.join(" ")} ${why}. A resume never gets more rights than the run was started with; start a new run instead.`,
    { facts: { option: given.name } },
  );
}

/** Why `given` may exceed the options that count in `recorded`. Null: it does not. */
function whyWider(recorded: readonly Given[], given: Given): string | null {
  const { spec } = given;
  if (spec === null) return "is an option Reprise does not know, so it cannot tell whether it adds rights";
  const right = rightOf(given);
  if (right === null || isRepeated(recorded, given)) return null;
  if (right === "grant" || right === "extra") return "would add a right";
  if (right === "limit") {
    if (spec.takes === "none" && given.values[0] === OFF) return "would take a limit away";
    const isNew = recorded.every((other) => other.spec !== spec);
    return isNew || spec.repeatable === true ? null : "would change a limit";
  }
  const ranks = recorded.flatMap((other) => {
    const known = rightOf(other);
    return typeof known === "object" && known?.scale === right.scale ? [known.rank] : [];
  });
  // Without a recorded value the engine's default applied, which only the narrowest value cannot exceed.
  const limit = ranks.length === 0 ? 0 : ranks.includes(null) ? null : Math.min(...ranks.map(Number));
  const isWithin = limit !== null && right.rank !== null && right.rank <= limit;
  return isWithin ? null : "would widen the run's rights";
}

/**
 * The first option that may give a start with `now` more rights than a start with `then`. Null: no more rights. Counts
 * added rights, and limits that are missing.
 */
export function moreRights(
  then: Parsed,
  now: Parsed,
): { readonly option: Given; readonly gone: boolean } | null {
  const [before, after] = [lastWins(then.options), lastWins(now.options)];
  const isIn = (options: readonly Given[], given: Given) =>
    options.some(
      ({ raw }) => raw.length === given.raw.length && raw.every((word, at) => word === given.raw[at]),
    );
  const added = after.find((given) =>
    given.spec === null ? !isIn(before, given) : whyWider(before, given) !== null,
  );
  if (added !== undefined) return { option: added, gone: false };
  const isKept = (given: Given) => {
    const right = rightOf(given);
    if (given.spec === null) return isIn(after, given);
    if (right === null || right === "extra") return true;
    if (typeof right === "object") return after.some((other) => scaleOf(other) === right.scale);
    return after.some((other) => sameOption(other, given) && sameValues(other, given));
  };
  const gone = before.find((given) => !isKept(given));
  if (gone !== undefined) return { option: gone, gone: true };
  const turned = otherOrder(before, after);
  return turned === null ? null : { option: turned, gone: false };
}

/** The first setting that now precedes a setting which it used to follow: of two that set the same, the last counts. */
function otherOrder(before: readonly Given[], after: readonly Given[]): Given | null {
  const isSetting = (given: Given) =>
    typeof given.spec?.guard === "object" && "of" in given.spec.guard && rightOf(given) !== null;
  const place = (given: Given) =>
    before.findLastIndex((other) => sameOption(other, given) && sameValues(other, given));
  const settings = after.filter(
    (given, at) =>
      isSetting(given) &&
      !after.some((other, index) => index > at && sameOption(other, given) && sameValues(other, given)),
  );
  for (const [at, given] of settings.entries()) {
    const next = settings[at + 1];
    if (next !== undefined && place(next) !== -1 && place(next) < place(given))
      return { ...given, raw: [...given.raw, "before", ...next.raw] };
  }
  return null;
}

/** The run has it already, and nothing else that decides the same. `recorded`: the options that count. */
export function isRepeated(recorded: readonly Given[], given: Given): boolean {
  const scale = scaleOf(given);
  const same = (other: Given) => sameOption(other, given) && sameValues(other, given);
  return (
    recorded.some(same) && (scale === null || recorded.every((one) => scaleOf(one) !== scale || same(one)))
  );
}

type Right = "grant" | "extra" | "limit" | { readonly scale: string; readonly rank: number | null };

export function rightOf({ spec, values }: Given): Right | null {
  const value = values.at(-1) ?? null;
  let guard: Guard | null = spec?.guard ?? null;
  while (guard !== null && typeof guard === "object" && "of" in guard) guard = guard.of(value);
  if (guard === null || typeof guard === "string") return guard;
  return { scale: guard.scale ?? spec?.names[0] ?? "", rank: guard.rank(value) };
}

/** The scale on which an option sets rights, if it does. */
export function scaleOf(given: Given): string | null {
  const right = rightOf(given);
  return typeof right === "object" && right !== null ? right.scale : null;
}

export function sameOption(one: Given, other: Given): boolean {
  return one.spec !== null && one.spec === other.spec;
}

export function sameValues(one: Given, other: Given): boolean {
  return (
    one.values.length === other.values.length && one.values.every((value, at) => value === other.values[at])
  );
}
