/** Helpers for token counts in engines' output. */
import type { Tokens } from "../core/events.ts";

/** A part that an engine reported; nothing for an absent one, which is never guessed. */
export function reportedCount(
  name: "cached" | "reasoning" | "costUsd",
  value: number | undefined,
): Pick<Tokens, "cached" | "reasoning" | "costUsd"> {
  return value === undefined || !(value >= 0) ? {} : { [name]: value };
}

/** The model, if the engine named exactly one. */
export function oneModel(names: readonly (string | undefined)[]): Pick<Tokens, "model"> {
  const [model, ...more] = new Set(names.filter((name) => name !== undefined && name !== ""));
  return model === undefined || more.length > 0 ? {} : { model };
}
