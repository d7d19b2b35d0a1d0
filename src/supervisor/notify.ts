/**
 * Notifies a person that an agent needs a decision: on the desktop, by a command, by a webhook.
 *
 * All text of a decision may come from an agent. It goes through stdin or a JSON body; the desktop gets one plain line.
 * Failures are warnings and delay nothing.
 */
import { errorCode } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import { harmlessJson, harmlessLine } from "../lib/harmless.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { redactorFor } from "../run/engine-setup.ts";
import { plainEnv } from "../process/process.ts";

const COMMAND_MS = 10_000;
const DESKTOP_MS = 5_000;
const WEBHOOK_MS = 5_000;
/** The width of a desktop notification. */
const MAX_COLUMNS = 180;

/** Never rejects: a failure is a warning. */
export async function notify(deps: Deps, decision: DecisionRecord): Promise<void> {
  const { command, webhook } = deps.config.notify ?? {};
  const facts = factsOf(decision, await nameOf(deps, decision.agentId), redactorFor(deps.env, []));
  const ways: readonly (readonly [way: string, tell: () => Promise<void>])[] = [
    ["the desktop notification", () => tellDesktop(deps, facts)],
    ...(command === undefined ? [] : [["notify.command", () => runCommand(deps, command, facts)] as const]),
    ...(webhook === undefined ? [] : [["notify.webhook", () => post(webhook, facts)] as const]),
  ];
  await Promise.all(
    ways.map(async ([way, tell]) => {
      try {
        await tell();
      } catch (error) {
        deps.log.warn(`${way} failed for decision ${decision.id}: ${whyNot(error)}`);
      }
    }),
  );
}

/** The input of commands and webhooks. Chat services show `text`. */
interface DecisionFacts {
  readonly event: "decision";
  readonly text: string;
  readonly agent: string;
  readonly decision: Pick<
    DecisionRecord,
    | "id"
    | "agentId"
    | "runId"
    | "attempt"
    | "trigger"
    | "what"
    | "trouble"
    | "tried"
    | "lastWords"
    | "options"
    | "createdAt"
  >;
  /** The command to type. */
  readonly answer: string;
}

function factsOf(decision: DecisionRecord, agent: string, redact: Redact): DecisionFacts {
  const { id, agentId, runId, attempt, trigger, what, trouble, tried, lastWords, options, createdAt } =
    decision;
  const why = { what, trouble, ...(tried === undefined ? {} : { tried }) };
  const about = { id, agentId, runId, attempt, trigger, ...why, lastWords, options, createdAt };
  // Cut after redaction: the redactor does not recognize half a secret.
  const text = harmlessLine(redact(`${agent} (${agentId}): ${what}`), MAX_COLUMNS);
  const answer = `reprise decisions resolve ${id}`;
  return { text, ...redactValue({ event: "decision" as const, agent, decision: about, answer }, redact) };
}

/** The agent's name in the runbook, else its id. */
async function nameOf(deps: Deps, agentId: string): Promise<string> {
  try {
    const definition = (await deps.store.getDocument("agent", agentId))?.data["definition"];
    const name =
      typeof definition === "object" && definition !== null && "name" in definition && definition.name;
    return typeof name === "string" ? name : agentId;
  } catch (error) {
    if (error instanceof Fault) return agentId;
    throw error;
  }
}

async function tellDesktop(deps: Deps, facts: DecisionFacts): Promise<void> {
  const [program, ...args] = desktopCommand(
    deps,
    "Reprise: an agent needs a decision",
    desktopText(facts.text),
  );
  if (program === undefined) return;
  const options = { cwd: deps.state.root, env: plainEnv(deps.env), timeoutMs: DESKTOP_MS };
  const { code, timedOut } = await deps.processes.runTool(program, args, options);
  if (code !== 0) throw new Error(timedOut ? "it took too long" : `${program} failed (${code ?? "killed"})`);
}

/** Empty: no desktop. */
function desktopCommand(deps: Deps, title: string, text: string): readonly string[] {
  if (process.platform === "darwin") {
    const script = [
      "on run argv",
      "display notification (item 2 of argv) with title (item 1 of argv)",
      "end run",
    ];
    const program = deps.processes.resolveProgram("osascript", deps.env);
    return program === null ? [] : [program, ...script.flatMap((line) => ["-e", line]), title, text];
  }
  const shown = ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"].some((name) => deps.env[name]);
  const program = shown ? deps.processes.resolveProgram("notify-send", deps.env) : null;
  return program === null ? [] : [program, "--app-name=Reprise", "--", title, text];
}

/** Notification servers interpret markup, and `notify-send` interprets backslashes, so both are replaced. */
function desktopText(line: string): string {
  const plain: Readonly<Record<string, string>> = { "<": "‹", ">": "›", "&": "+", "\\": "/" };
  return line.replace(/[<>&\\]/g, (character) => plain[character] ?? " ").replace(/^-+/, "");
}

async function runCommand(deps: Deps, command: readonly string[], facts: DecisionFacts): Promise<void> {
  const [program = "", ...args] = command;
  const result = await deps.processes.runTool(program, args, {
    cwd: deps.state.root,
    env: plainEnv(deps.env),
    timeoutMs: COMMAND_MS,
    stdin: `${harmlessJson(facts)}\n`,
  });
  if (result.timedOut) throw new Error("it took too long and was ended");
  if (result.code !== 0)
    throw new Error(`it failed (exit code ${result.code ?? result.signal ?? "unknown"})`);
}

/** The address is a secret: no message may contain it. */
async function post(address: string, facts: DecisionFacts): Promise<void> {
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: harmlessJson(facts),
    // A redirect would send the facts to an address that the user did not choose.
    redirect: "manual",
    signal: AbortSignal.timeout(WEBHOOK_MS),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`it answered ${response.status}`);
}

function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return "it took too long";
  // The cause of a failed fetch has the reason, and does not contain the address.
  const code = errorCode(error.cause);
  return code === null ? error.message : `${error.message} (${code})`;
}
