/**
 * Words from other tools, and our commands for them. Reading commands are accepted (`ls`); for acting commands Reprise
 * suggests the whole command line, and it suggests removals only for words of removal.
 */
import { shellLine } from "../lib/shell.ts";
import { nearest } from "../lib/suggest.ts";

/** Another word for exactly the same command. */
export const ALIASES: Readonly<Record<string, string>> = { ls: "list", continue: "resume" };

/** Each begins with our words; the first word that a family of commands has is meant. */
const GROUPS: readonly (readonly [ours: readonly string[], theirs: readonly string[]])[] = [
  [
    ["start", "run"],
    ["start", "run", "new", "create", "launch", "exec", "begin", "ask", "chat", "do"],
  ],
  [
    ["list", "status"],
    ["ls", "ps", "history", "runs", "jobs", "sessions", "ids", "handles", "all"],
  ],
  [
    ["resume", "start"],
    ["continue", "cont", "retry", "restart", "reopen", "again", "wake"],
  ],
  [
    ["stop", "cancel"],
    ["stop", "kill", "end", "cancel", "abort", "terminate", "interrupt", "pause", "halt", "quit"],
  ],
  [["rm"], ["delete", "remove", "del", "erase", "destroy", "forget", "discard"]],
  [
    ["prune", "clean"],
    ["clean", "cleanup", "gc", "purge", "tidy"],
  ],
  [["show"], ["info", "inspect", "describe", "view", "get", "details", "receipt", "proof"]],
  [["logs"], ["log", "tail", "cat", "output", "print", "tape", "transcript"]],
  [["attach"], ["open", "connect", "join", "enter", "foreground", "fg"]],
  [["status"], ["top", "watch", "dashboard", "monitor"]],
  [["export"], ["share", "bundle", "archive", "report"]],
  [["adopt"], ["import", "takeover", "find"]],
  [["usage"], ["cost", "costs", "tokens", "spend", "billing", "stats", "price", "prices"]],
  [["doctor"], ["check", "health", "diagnose", "engines", "test", "certify"]],
  [["init"], ["setup", "scaffold"]],
  [["config"], ["settings", "configure", "preferences"]],
  [["review"], ["pr", "reviews", "comments"]],
  [["issues"], ["issue", "batch", "tasks", "beads", "bd"]],
  [["agent"], ["agents", "supervise", "worker"]],
  [["pipeline"], ["pipelines", "workflow", "workflows", "ci"]],
  [
    ["decisions", "resolve"],
    ["decision", "decide", "answer", "approve", "choose", "questions", "inbox"],
  ],
  [["send"], ["tell", "say", "message", "nudge", "type"]],
  [["peek"], ["screen", "look"]],
  [["daemon"], ["supervisor", "server", "service"]],
  [["completion"], ["completions", "complete", "bash", "zsh", "fish"]],
  [["explain"], ["parse", "understand"]],
];

/** Words for a command with an option. */
const WITH_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  ps: ["list", "--status", "running"],
  fork: ["resume", "--fork"],
  engines: ["doctor"],
};

/** The command line to suggest for an unknown command. Null: unknown. */
export function suggestLine(
  args: readonly string[],
  names: readonly string[],
  engines: readonly string[],
): string | null {
  const [name = "", ...rest] = args;
  const [next = ""] = rest;
  // `reprise --json list`
  if (name.startsWith("-"))
    return names.includes(next) ? shellLine([next, ...rest.slice(1), name]) : meant(name, names);
  if (engines.includes(name)) return shellLine(["start", name, ...rest]);
  const exact = Object.hasOwn(WITH_OPTIONS, name) ? WITH_OPTIONS[name] : undefined;
  const one = exact === undefined ? meant(name, names) : null;
  const line = exact ?? (one === null ? null : [one]);
  if (line === null) return null;
  // Another tool's options are not ours.
  const keeps = rest.every((arg) => !arg.startsWith("-")) && !line.includes("--status");
  return shellLine(keeps || line[0] === "start" ? [...line, ...rest] : line);
}

/** Which of these names a word means that is none of them. Null: unknown. */
export function meant(word: string, names: readonly string[]): string | null {
  const given = word.toLowerCase();
  if (names.includes(given)) return given;
  const known = GROUPS.flatMap(([ours, theirs]) => {
    const name = ours.find((one) => names.includes(one));
    return name === undefined ? [] : theirs.map((their) => [their, name] as const);
  });
  const exact = known.find(([their]) => their === given);
  if (exact !== undefined) return exact[1];
  // A mistyped word must never lead to a removal that it does not nearly spell.
  const long = known.map(([their]) => their).filter((their) => their.length >= 5);
  const near = nearest(given, [...names.filter((name) => name !== "rm"), ...long]);
  if (near === null || names.includes(near)) return near === "prune" && !given.startsWith("p") ? null : near;
  return known.find(([their]) => their === near)?.[1] ?? null;
}
