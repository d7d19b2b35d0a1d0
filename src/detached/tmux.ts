/**
 * A tmux session around the direct client, for scrolling and windows. tmux only displays; killing it does not affect
 * the agent.
 *
 * tmux interprets formats and command separators in its arguments, so it sees only our words and the handle, on a
 * private server without user configuration.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runtimeDir } from "../state/runtime.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { Deps } from "../run/run.ts";

/** Null: tmux is not installed, or we already run inside it. */
export function findTmux(deps: Deps): string | null {
  const inside = (deps.env["TMUX"] ?? "") !== "";
  return inside ? null : deps.processes.resolveProgram("tmux", deps.env);
}

/** Server options: no key binding except the one to leave, and nothing around the agent's screen. */
const SETTINGS = [
  ["set-option", "-g", "status", "off"],
  ["set-option", "-g", "prefix", "None"],
  ["set-option", "-s", "escape-time", "10"],
  ["set-option", "-g", "window-size", "latest"],
  ["bind-key", "-n", "C-]", "detach-client"],
] as const;

/** Resolves when the user left or the client inside ended. The handle is `[0-9a-f]{8}`. */
export async function attachInTmux(deps: Deps, tmux: string, handle: string): Promise<void> {
  if (!/^[0-9a-f]{8}$/.test(handle)) throw new Fault("handle_invalid", "This is not a handle.");
  const server = ["-S", join(runtimeDir(deps.state, deps.env), "tmux.sock"), "-f", "/dev/null"];
  const env = withoutTmux(deps.env);
  const ask = (...words: string[]) =>
    deps.processes.runTool(tmux, [...server, ...words], { cwd: deps.state.root, env, timeoutMs: 10_000 });
  if ((await ask("has-session", "-t", `=${handle}`)).code !== 0) {
    const client = [process.execPath, fileURLToPath(new URL("reprise.js", import.meta.url))];
    const made = await ask("new-session", "-d", "-s", handle, "--", ...client, "attach", "--direct", handle);
    if (made.code !== 0) {
      throw new Fault("platform_unsupported", "tmux could not be started. Use reprise attach --direct.", {
        facts: { handle },
      });
    }
  }
  for (const words of SETTINGS) await ask(...words);
  await new Promise<void>((resolve, reject) => {
    const client = spawn(tmux, [...server, "attach-session", "-t", `=${handle}`], {
      cwd: deps.state.root,
      env,
      stdio: "inherit",
    });
    client.once("error", reject);
    client.once("close", () => resolve());
  });
}

function withoutTmux(env: Env): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env))
    if (value !== undefined && name !== "TMUX" && name !== "TMUX_PANE") kept[name] = value;
  return kept;
}
