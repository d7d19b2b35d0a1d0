/** The last exchange of a run: its last message, and the end of the agent's answer. Reads a bounded part of the recording. */
import type { RunRecord } from "../core/records.ts";
import { Fault } from "../core/faults.ts";
import type { Exchange } from "../home/home.ts";
import { parseObject } from "../lib/json.ts";
import { attemptDir, loadAttemptFile } from "../state/runs.ts";
import { readStream } from "../state/logs.ts";
import type { LogName } from "../state/tape.ts";
import { eventFrom, EventText } from "./events-text.ts";
import { plainText, renderScreen } from "./plain.ts";

/** Enough for a screen of text. */
const TAIL = 64 * 1024;
const PLAIN = { stdin: false, stdout: false, stderr: false, columns: 200, rows: 50, color: false };

export async function lastExchange(run: RunRecord): Promise<Exchange> {
  const n = run.attempts;
  if (n === 0) return { asked: run.launch.message, answer: "No attempt yet." };
  try {
    const record = await loadAttemptFile(run.runDirectory, n).catch(() => null);
    const asked = record?.message ?? null;
    const directory = attemptDir(run.runDirectory, n);
    if (record?.interactive === true) return { asked, answer: await screenIn(directory) };
    const words = await wordsIn(directory);
    return { asked, answer: words === "" ? await textIn(directory) : words };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { asked: run.launch.message, answer: error.message };
  }
}

/** The agent's words and actions, from the events. Empty: none. */
async function wordsIn(directory: string): Promise<string> {
  const lines = (await tailOf(directory, "events")).split("\n");
  const words = new EventText(PLAIN);
  return lines.map((line) => shown(words, line)).join("");
}

function shown(words: EventText, line: string): string {
  const found = line === "" ? undefined : parseObject(line);
  const event = found === undefined ? null : eventFrom(found);
  return event === null ? "" : words.show(event);
}

/** Without the protocol of an engine that has not said anything yet. */
async function textIn(directory: string): Promise<string> {
  let text = "";
  for await (const part of plainText(tailBytes(directory, "pty-output"))) text += part;
  return text
    .split("\n")
    .filter((line) => parseObject(line) === undefined)
    .join("\n");
}

/** A UI's screen at the end of its recording. */
async function screenIn(directory: string): Promise<string> {
  const lines: string[] = [];
  for await (const part of renderScreen(tailBytes(directory, "pty-output"), { columns: 120, rows: 40 }))
    lines.push(part);
  return lines.join("").trimEnd();
}

async function tailOf(directory: string, log: LogName): Promise<string> {
  const parts: Buffer[] = [];
  try {
    for await (const part of tailBytes(directory, log)) parts.push(part);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "attempt_unknown") throw error;
  }
  return Buffer.concat(parts).toString("utf8");
}

/** A growing log gets no more than this either. */
async function* tailBytes(directory: string, log: LogName): AsyncGenerator<Buffer> {
  let left = TAIL;
  for await (const part of readStream(directory, log, { tailBytes: TAIL })) {
    yield part.subarray(0, left);
    left -= part.length;
    if (left <= 0) return;
  }
}
