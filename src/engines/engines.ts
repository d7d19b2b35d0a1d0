/** The engines that come with Reprise. Adding one is a line here, a file, a fixtures folder and a page in docs. */
import { demo } from "./demo.ts";
import type { Engine } from "./engine.ts";

export { DEMO_PROGRAM } from "./demo.ts";

export const ENGINES: readonly Engine[] = [demo];

export function findEngine(id: string): Engine | undefined {
  return ENGINES.find((engine) => engine.id === id);
}
