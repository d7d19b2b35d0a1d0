/**
 * The door of `notify`: notifies a person on the desktop, by a command, by a webhook.
 *
 * All text may come from an agent. It goes through stdin or a JSON body; the desktop gets one plain line. Failures are
 * warnings and delay nothing.
 */
import { errorCode } from "../core/errno.ts";
import { harmlessJson, harmlessLine } from "../lib/harmless.ts";
import { redactValue } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { redactorFor } from "../run/engine-setup.ts";
import { plainEnv } from "../process/process.ts";
import type { Notice, NoticeEvent } from "./notices.ts";

export { endNotice, limitNotice, type Notice } from "./notices.ts";

const COMMAND_MS = 10_000;
const DESKTOP_MS = 5_000;
const WEBHOOK_MS = 5_000;
/** The width of a desktop notification. */
const MAX_COLUMNS = 180;

const TITLES: Readonly<Record<NoticeEvent, string>> = {
  decision: "Reprise: an agent needs a decision",
  ended: "Reprise: a background run ended",
  limit: "Reprise: an agent hit a limit",
  scheduled: "Reprise: a scheduled resume",
  test: "Reprise: a test",
};

/** One way to notify, and the result. Null: it worked. */
export interface NoticeResult {
  readonly way: string;
  readonly failed: string | null;
}

/** Never rejects: a failure is a warning. */
export async function notify(deps: Deps, notice: Notice, about: string): Promise<void> {
  const { events } = deps.config.notify ?? {};
  if (events !== undefined && !events.some((event) => event === notice.event)) return;
  for (const { way, failed } of await send(deps, notice))
    if (failed !== null) deps.log.warn(`${way} failed for ${about}: ${failed}`);
}

/** Tries all ways and reports each, for `notify test`. */
export async function send(deps: Deps, notice: Notice): Promise<readonly NoticeResult[]> {
  const { command, webhook } = deps.config.notify ?? {};
  const redact = redactorFor(deps.env, []);
  // Cut after redaction: the redactor does not recognize half a secret.
  const text = harmlessLine(redact(notice.text), MAX_COLUMNS);
  const body = harmlessJson({ event: notice.event, text, ...redactValue({ ...notice.facts }, redact) });
  const desktop = desktopCommand(deps, TITLES[notice.event], desktopText(text));
  const ways: readonly (readonly [way: string, tell: () => Promise<void>])[] = [
    ...(desktop === null ? [] : [["the desktop notification", () => tellDesktop(deps, desktop)] as const]),
    ...(command === undefined ? [] : [["notify.command", () => runCommand(deps, command, body)] as const]),
    ...(webhook === undefined ? [] : [["notify.webhook", () => post(webhook, body)] as const]),
  ];
  return Promise.all(
    ways.map(async ([way, tell]) => {
      try {
        await tell();
        return { way, failed: null };
      } catch (error) {
        return { way, failed: whyNot(error) };
      }
    }),
  );
}

async function tellDesktop(deps: Deps, [program, ...args]: readonly [string, ...string[]]): Promise<void> {
  const options = { cwd: deps.state.root, env: plainEnv(deps.env), timeoutMs: DESKTOP_MS };
  const { code, timedOut } = await deps.processes.runTool(program, args, options);
  if (code !== 0) throw new Error(timedOut ? "it took too long" : `${program} failed (${code ?? "killed"})`);
}

/** Null: no desktop. */
function desktopCommand(deps: Deps, title: string, text: string): readonly [string, ...string[]] | null {
  if (process.platform === "darwin") {
    const script = [
      "on run argv",
      "display notification (item 2 of argv) with title (item 1 of argv)",
      "end run",
    ];
    const program = deps.processes.resolveProgram("osascript", deps.env);
    return program === null ? null : [program, ...script.flatMap((line) => ["-e", line]), title, text];
  }
  const shown = ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"].some((name) => deps.env[name]);
  const program = shown ? deps.processes.resolveProgram("notify-send", deps.env) : null;
  return program === null ? null : [program, "--app-name=Reprise", "--", title, text];
}

/** Notification servers interpret markup, and `notify-send` interprets backslashes, so both are replaced. */
function desktopText(line: string): string {
  const plain: Readonly<Record<string, string>> = { "<": "‹", ">": "›", "&": "+", "\\": "/" };
  return line.replace(/[<>&\\]/g, (character) => plain[character] ?? " ").replace(/^-+/, "");
}

async function runCommand(deps: Deps, command: readonly string[], body: string): Promise<void> {
  const [program = "", ...args] = command;
  const result = await deps.processes.runTool(program, args, {
    cwd: deps.state.root,
    env: plainEnv(deps.env),
    timeoutMs: COMMAND_MS,
    stdin: `${body}\n`,
  });
  if (result.timedOut) throw new Error("it took too long and was ended");
  if (result.code === 0) return;
  const said = harmlessLine(redactorFor(deps.env, [])(result.stderr).trim().split("\n").at(-1) ?? "", 200);
  const how = `exit code ${result.code ?? result.signal ?? "unknown"}`;
  throw new Error(`it failed (${how})${said === "" ? "" : `: ${said}`}`);
}

/** The address is a secret: no message may contain it. */
async function post(address: string, body: string): Promise<void> {
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
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
  const code = errorCode(error.cause) ?? plainWords(error.cause);
  return code === null ? error.message : `${error.message} (${code})`;
}

/** A reason without a code, such as "bad port". Plain words hold no part of an address. */
function plainWords(cause: unknown): string | null {
  return cause instanceof Error && /^[a-z]+( [a-z]+)*$/i.test(cause.message) ? cause.message : null;
}
