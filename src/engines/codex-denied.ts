/**
 * Tool calls that Codex refused in the last turn. `codex exec --json` (0.166) prints nothing about a command that its
 * sandbox stopped, and only a line on stderr about a patch, so the calls are read from the rollout.
 */
import type { DeniedCall } from "../core/events.ts";
import { type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { findRollout } from "./codex-store.ts";
import type { SessionFiles, Where } from "./engine.ts";

const TURN_BYTES = 8_388_608;
const MAX_DETAIL = 200;
/** Codex itself did not let it run. */
const REFUSED = /^(?:patch rejected|approval policy is never)|rejected by user approval settings/i;
/** The sandbox stopped it; a command that failed by itself says something else. */
const STOPPED =
  /Process exited with code [1-9][^]*(?:read-only file system|operation not permitted|landlock|seccomp)/i;

export async function codexDenied(
  session: string,
  { home }: Where,
  files: SessionFiles,
): Promise<readonly DeniedCall[]> {
  const path = await findRollout(session, home, files);
  const found = path === null ? null : await files.lines(path, 0, TURN_BYTES);
  return deniedIn(found?.lines ?? []);
}

export function deniedIn(lines: readonly string[]): readonly DeniedCall[] {
  const calls = new Map<string, DeniedCall>();
  let denied: DeniedCall[] = [];
  for (const line of lines) {
    const payload = objectIn(parseObject(line), "payload");
    const id = stringIn(payload, "call_id") ?? "";
    switch (stringIn(payload, "type") ?? "") {
      case "task_started":
        denied = [];
        break;
      case "function_call":
      case "custom_tool_call":
        calls.set(id, callIn(payload));
        break;
      case "function_call_output":
      case "custom_tool_call_output": {
        const output = stringIn(payload, "output") ?? "";
        const call = calls.get(id);
        if (call !== undefined && (REFUSED.test(output) || STOPPED.test(output))) denied.push(call);
        break;
      }
      default:
    }
  }
  return denied;
}

function callIn(payload: JsonObject | undefined): DeniedCall {
  const given = parseObject(stringIn(payload, "arguments") ?? "");
  const words = stringIn(given, "cmd") ?? stringIn(given, "command") ?? stringIn(payload, "input") ?? "";
  const files = [...words.matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm)].map(
    ([, file = ""]) => file,
  );
  if (files.length > 0) return { name: "apply_patch", detail: files.join(" ").slice(0, MAX_DETAIL) };
  const name = stringIn(payload, "name") ?? "tool";
  const detail = words.split("\n")[0]?.slice(0, MAX_DETAIL) ?? "";
  return detail === "" ? { name } : { name, detail };
}
