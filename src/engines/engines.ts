/** The engines that ship with Reprise. To add an engine, add a line here, a file, a fixtures folder and a page in docs. */
import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import { demo } from "./demo.ts";
import type { Engine } from "./engine.ts";
import { gemini } from "./gemini.ts";
import { iflow } from "./iflow.ts";
import { opencode } from "./opencode.ts";

export { accessOptions, type HeldAccess, widerAnew, widerStart } from "./attempt-options.ts";
export { customEngine } from "./custom.ts";
export { DEMO_PROGRAM } from "./demo.ts";
export { isGuarded } from "./guarded-env.ts";
export { earlierChoice, namedPaths, parseArgs, refusedOption, secretsAt } from "./grammar.ts";
export { keepNative } from "./attempt-options.ts";

export const ENGINES: readonly Engine[] = [codex, claude, gemini, iflow, opencode, demo];

export function builtInEngine(id: string): Engine | undefined {
  return ENGINES.find((engine) => engine.id === id);
}
