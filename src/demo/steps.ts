/**
 * The actions of the scripted agent in a turn, as data: an ordinary plan, changed by directives in the message
 * (`@@die`), or a script file that replaces the plan. Pure.
 */
import { DEMO_TROUBLES, type DemoTrouble } from "./persona.ts";

const STEPS = [
  // The parts of an ordinary turn.
  "session",
  "user",
  "begin",
  "answer",
  "end",
  "fail",
  // An agent's words and actions.
  "print",
  "stderr",
  "text",
  "tool",
  "deny",
  "open-tool",
  "ask",
  "retry",
  "write",
  "wait",
  "expect-stdin",
  // Ways to stop.
  "exit",
  "signal",
  "hang",
  "die",
  "lost",
  // Mischief.
  "ignore-sigterm",
  "fork",
  "flood",
  "line",
  "burst",
  "close-stdout",
  "forge",
  "osc",
  "badutf8",
  "crlf",
  "split",
  "silent",
  "slow",
  "env",
  "other-session",
  "server",
] as const;

type StepName = (typeof STEPS)[number];

export interface ScriptStep {
  readonly step: StepName;
  readonly text?: string;
  readonly name?: string;
  readonly ms?: number;
  readonly bytes?: number;
  readonly count?: number;
  readonly code?: number;
  /** answer: which half. Absent: the whole. */
  readonly half?: 1 | 2;
  readonly trouble?: DemoTrouble;
}

/** The place of a directive in a turn. `fail` replaces the answer. */
type Place = "setup" | "body" | "stop" | "fail";
type StopAt = "before-session" | "after-session" | "after-user" | "in-tool" | "half" | "after-text";
const STOPS: readonly string[] = [
  "before-session",
  "after-session",
  "after-user",
  "in-tool",
  "half",
  "after-text",
];

interface Bend {
  readonly place: Place;
  readonly step: ScriptStep;
  readonly at: StopAt;
}

const DIRECTIVE = /(?<=^|\s)@@([a-z0-9][a-z0-9-]*)(?::(\S+))?(?=\s|$)/g;

export function planOf(message: string): ScriptStep[] {
  const bends = [...message.matchAll(DIRECTIVE)].map(([text, name = "", arg = ""]) => bend(text, name, arg));
  const of = (place: Place): ScriptStep[] => bends.filter((b) => b.place === place).map((b) => b.step);
  const stops = (at: StopAt): ScriptStep[] =>
    bends.filter((b) => b.place === "stop" && b.at === at).map((b) => b.step);
  const [failure] = of("fail");
  const inTool = stops("in-tool");
  const ending: ScriptStep[] =
    failure === undefined
      ? [{ step: "answer", half: 2 }, ...stops("after-text"), { step: "end" }]
      : [...stops("after-text"), failure];
  return [
    ...of("setup"),
    ...stops("before-session"),
    { step: "session" },
    ...stops("after-session"),
    { step: "user" },
    ...stops("after-user"),
    { step: "begin" },
    ...of("body"),
    ...(inTool.length === 0 ? [] : [{ step: "open-tool" } as const, ...inTool]),
    ...(failure === undefined ? [{ step: "answer", half: 1 } as const] : []),
    ...stops("half"),
    ...ending,
  ];
}

/** The message as a person would quote it. */
export function withoutDirectives(message: string): string {
  const rest = message.replace(DIRECTIVE, "").replace(/\s+/g, " ").trim();
  return rest === "" ? message.trim() : rest;
}

type Make = (arg: string) => { readonly place: Place; readonly step: ScriptStep };

const body =
  (make: (arg: string) => ScriptStep): Make =>
  (arg) => ({ place: "body", step: make(arg) });
const setup =
  (make: (arg: string) => ScriptStep): Make =>
  (arg) => ({ place: "setup", step: make(arg) });
const stop =
  (make: (arg: string) => ScriptStep): Make =>
  (arg) => ({ place: "stop", step: make(arg) });
const fail =
  (kind: DemoTrouble["kind"], status: number | null): Make =>
  (arg) => {
    const resetsAt = /^reset=(\S+)$/.exec(arg)?.[1] ?? null;
    return { place: "fail", step: { step: "fail", trouble: { kind, status, resetsAt } } };
  };

const DIRECTIVES: Readonly<Record<string, Make>> = {
  die: stop(() => ({ step: "die" })),
  hang: stop(() => ({ step: "hang" })),
  exit: stop((arg) => ({ step: "exit", code: number(arg, 1) })),
  signal: stop((arg) => ({ step: "signal", name: `SIG${(arg || "TERM").replace(/^SIG/, "")}` })),
  lost: stop(() => ({ step: "lost" })),
  "429": fail("rate_limited", 429),
  quota: fail("quota", 429),
  "401": fail("auth", 401),
  "500": fail("overloaded", 500),
  "503": fail("overloaded", 503),
  network: fail("network", null),
  context: fail("context_full", 400),
  busy: setup(() => ({ step: "fail", trouble: { kind: "busy", status: null, resetsAt: null } })),
  slow: setup((arg) => ({ step: "slow", ms: number(arg, 200) })),
  crlf: setup(() => ({ step: "crlf" })),
  split: setup(() => ({ step: "split" })),
  silent: setup(() => ({ step: "silent" })),
  env: setup((arg) => ({ step: "env", name: arg })),
  "other-session": setup(() => ({ step: "other-session" })),
  server: setup((arg) => ({ step: "server", name: arg })),
  "ignore-sigterm": setup(() => ({ step: "ignore-sigterm" })),
  wait: body((arg) => ({ step: "wait", ms: number(arg, 1000) })),
  tool: body((arg) => ({ step: "tool", name: arg || "shell" })),
  deny: body((arg) => ({ step: "deny", name: "write", text: arg || "demo.txt" })),
  "long-tool": body((arg) => ({ step: "tool", name: "shell", ms: number(arg, 1000) })),
  ask: body((arg) => ({ step: "ask", name: "command", text: arg || "pwd" })),
  "ask-files": body((arg) => ({ step: "ask", name: "files", text: arg || "demo.txt" })),
  retry: body((arg) => ({ step: "retry", ms: number(arg, 50) })),
  write: body((arg) => ({ step: "write", name: arg || "demo.txt" })),
  stderr: body((arg) => ({ step: "stderr", text: arg || "demo: a word on stderr" })),
  forge: body((arg) => ({ step: "forge", name: arg || "inside" })),
  osc: body(() => ({ step: "osc" })),
  flood: body((arg) => ({ step: "flood", bytes: number(arg, 1_000_000) })),
  line: body((arg) => ({ step: "line", bytes: number(arg, 1_000_000) })),
  burst: body((arg) => ({ step: "burst", count: number(arg, 1000) })),
  badutf8: body(() => ({ step: "badutf8" })),
  "fork-child": body((arg) => ({ step: "fork", name: arg })),
  "close-stdout": body(() => ({ step: "close-stdout" })),
};

function bend(text: string, name: string, arg: string): Bend {
  const make = Object.hasOwn(DIRECTIVES, name) ? DIRECTIVES[name] : undefined;
  if (make === undefined) {
    return { place: "body", step: { step: "stderr", text: `demo: unknown directive ${text}` }, at: "half" };
  }
  // Only ways to stop have a place, always as the last part: `@@exit:3:after-user`.
  const place = arg.slice(arg.lastIndexOf(":") + 1);
  const at = STOPS.includes(place) ? (place as StopAt) : null;
  const rest = at === null ? arg : arg.slice(0, Math.max(0, arg.length - place.length - 1));
  return { ...make(rest), at: at ?? "half" };
}

function number(arg: string, fallback: number): number {
  return /^\d{1,12}$/.test(arg) ? Number(arg) : fallback;
}

/** One JSON object per line; skips blank lines and lines that begin with `#`. Throws with the line number. */
export function parseScript(text: string): ScriptStep[] {
  const steps: ScriptStep[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    try {
      steps.push(toStep(JSON.parse(line)));
    } catch (error) {
      throw new Error(`script line ${index + 1}: ${error instanceof Error ? error.message : "?"}`, {
        cause: error,
      });
    }
  }
  return steps;
}

function toStep(value: unknown): ScriptStep {
  if (typeof value !== "object" || value === null) throw new Error("a step is a JSON object");
  const fields = value as Readonly<Record<string, unknown>>;
  const name = STEPS.find((known) => known === fields["step"]);
  if (name === undefined) throw new Error(`unknown step ${JSON.stringify(fields["step"])}`);
  const wrong = Object.entries(fields).find(([key, field]) => !fits(key, field));
  if (wrong !== undefined) throw new Error(`${name} has no field ${wrong[0]} of this kind`);
  if (name !== "fail" && name !== "retry") return { ...fields, step: name };
  const kind = DEMO_TROUBLES.find((known) => known === fields["kind"]) ?? "rate_limited";
  const resetsAt = typeof fields["resetsAt"] === "string" ? fields["resetsAt"] : null;
  const status = typeof fields["status"] === "number" ? fields["status"] : null;
  return { ...fields, step: name, trouble: { kind, status, resetsAt } };
}

function fits(key: string, value: unknown): boolean {
  if (["step", "text", "name", "kind", "resetsAt"].includes(key)) return typeof value === "string";
  return ["ms", "bytes", "count", "code", "half", "status"].includes(key) && typeof value === "number";
}
