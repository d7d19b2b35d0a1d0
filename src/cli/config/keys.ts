/** The keys of config files, as people type them. */
import { BUILT_IN_ENGINES } from "../../core/config.ts";
import { Fault } from "../../core/faults.ts";

/** Keys to complete and to suggest; others, such as variables and keys of custom engines, exist as well. */
export const CONFIG_KEYS: readonly string[] = [
  ...["escrow", "idle_timeout", "tool_timeout", "timeout"],
  ...["issues.access", "issues.gate.commands", "notify.command", "notify.webhook"],
  ...BUILT_IN_ENGINES.filter((id) => id !== "demo").flatMap((id) =>
    ["program", "args", "env", "home"].map((key) => `engines.${id}.${key}`),
  ),
];

/** `engines.codex.args`, with quotes around a part that has a dot. */
export function keyPath(key: string): readonly string[] {
  const parts = [...key.matchAll(/"([^"]*)"|[^."]+/g)].map(([all, inner]) => inner ?? all);
  const written = /^(?:"[^"]*"|[^."]+)(?:\.(?:"[^"]*"|[^."]+))*$/.test(key);
  if (written && !parts.includes("__proto__")) return parts;
  throw new Fault(
    "usage",
    `${JSON.stringify(key.slice(0, 80))} is not a config key. Keys look like engines.codex.args.`,
  );
}
