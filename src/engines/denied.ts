/** Tool calls that an engine refused to run, in the same words for every engine. */
import type { EngineEvent } from "../core/events.ts";

export function notPermitted(name: string, detail?: string): EngineEvent {
  return {
    type: "notice",
    message: `Not permitted: ${[name, detail].filter(Boolean).join(" ")}`,
    denied: { name, ...(detail === undefined ? {} : { detail }) },
  };
}
