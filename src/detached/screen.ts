/** What an agent shows right now, as harmless plain text (I11). */
import type { TerminalSize } from "../lib/terminal-state.ts";
import { readStream } from "../state/logs.ts";
import { attemptDir } from "../state/runs.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { harmless } from "../lib/harmless.ts";
import { parseObject, stringIn } from "../lib/json.ts";
import type { Deps } from "../run/run.ts";

/** Enough of the tape to redraw a screen, and enough events for some last words. */
const TAPE_BYTES = 2 * 1024 * 1024;
const EVENT_BYTES = 256 * 1024;

/** Of a UI its screen, otherwise the agent's last lines, without trailing empty lines. */
export async function screenOf(
  deps: Deps,
  run: RunRecord,
  attempt: number,
  size: TerminalSize,
): Promise<string> {
  const record = await attemptRecord(deps, run, attempt);
  const directory = attemptDir(run.runDirectory, attempt);
  const lines = record?.interactive === true ? await drawn(directory, size) : await said(directory, size);
  return lines
    .map((line) => harmless(line).trimEnd())
    .join("\n")
    .trimEnd();
}

async function attemptRecord(deps: Deps, run: RunRecord, n: number): Promise<AttemptRecord | undefined> {
  return (await deps.store.listAttempts(run.runId)).find((attempt) => attempt.n === n);
}

async function drawn(directory: string, { cols, rows }: TerminalSize): Promise<string[]> {
  const { default: xterm } = await import("@xterm/headless");
  const terminal = new xterm.Terminal({ cols, rows, scrollback: 0, allowProposedApi: true });
  try {
    for await (const chunk of readStream(directory, "pty-output", { tailBytes: TAPE_BYTES }))
      await new Promise<void>((resolve) => terminal.write(chunk, resolve));
    const { active } = terminal.buffer;
    return Array.from(
      { length: rows },
      (_none, y) => active.getLine(active.baseY + y)?.translateToString(true) ?? "",
    );
  } finally {
    terminal.dispose();
  }
}

async function said(directory: string, { rows }: TerminalSize): Promise<string[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of readStream(directory, "events", { tailBytes: EVENT_BYTES })) chunks.push(chunk);
  let text = "";
  for (const line of Buffer.concat(chunks).toString("utf8").split("\n")) {
    const event = parseObject(line);
    if (stringIn(event, "type") !== "text") continue;
    const words = stringIn(event, "text") ?? "";
    text += event?.["delta"] === true || text === "" ? words : `\n${words}`;
  }
  return text.trimEnd().split("\n").slice(-rows);
}
