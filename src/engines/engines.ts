/** The engines that come with Reprise. Adding one is a line here, a file, a fixtures folder and a page in docs. */
import type { Engine } from "./engine.ts";

export const ENGINES: readonly Engine[] = [];

export function findEngine(id: string): Engine | undefined {
  return ENGINES.find((engine) => engine.id === id);
}
