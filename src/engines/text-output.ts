/** Output that is written for people, not for programs. */
import type { OutputReader } from "./engine.ts";

/** Of a model's own words nothing is understood: they may look like any line of the engine's (I5). */
export const SILENT: OutputReader = { line: () => [], end: () => [] };
