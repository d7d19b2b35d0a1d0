/**
 * Waits for the moment of an interruption, and interrupts. The model, the engine's files and Reprise's records show the
 * moment; no fixed waits.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { CaseInterrupt, CaseTalk } from "./case.ts";
import type { LabPlace } from "./lab.ts";
import { Late, processesOf, type Running, signal, until } from "./place.ts";
import type { LabWorld } from "./world.ts";

export const STEP_DEADLINE_MS = 60_000;

export function messageOf(
  { place, decoy }: LabWorld,
  talk: CaseTalk,
  cut: CaseInterrupt | undefined,
): string | null {
  if (talk.message === null) return null;
  const hold = cut === undefined ? "" : HOLD[cut.at];
  return talk.message
    .replaceAll("{hold}", hold)
    .replaceAll("{mark}", markOf(place))
    .replaceAll("{decoy}", decoy ?? "");
}

/** The directive that holds the model at the moment of the interruption. */
const HOLD: Readonly<Record<CaseInterrupt["at"], string>> = {
  spawn: "@@silent",
  session: "@@silent",
  request: "@@silent",
  "before-token": "@@silent",
  "mid-stream": "@@slow:60000",
  copied: "@@slow:60000",
  "mid-tool": "@@tool:touch {mark}; tail -f /dev/null",
  after: "",
};

function markOf(place: LabPlace): string {
  return join(place.project, "tool-runs");
}

export async function interrupt(
  world: LabWorld,
  { who, signal: name, at }: CaseInterrupt,
  running: Running,
): Promise<void> {
  const gone = { yes: false };
  void running.ended.then(() => (gone.yes = true));
  await until(`the moment "${at}"`, () => gone.yes || isAt(world, at), STEP_DEADLINE_MS);
  if (WRITTEN.has(at))
    await until(
      "the message is written down",
      () => gone.yes || isKept(world, world.messages.at(-1) ?? ""),
      KEPT_MS,
    ).catch(() => {});
  if (gone.yes && at !== "after") throw new Late(`Reprise ended before the moment "${at}"`);
  const agent = attemptOf(world)?.agent?.pid ?? null;
  if (who === "reprise") signal(running.pid, name);
  else if (who === "agent") signal(agent ?? -1, name);
  else if (who === "terminal" && running.close !== undefined) running.close(name);
  else for (const pid of [running.pid, ...processesOf(world.place.root)]) signal(pid, name);
}

const WRITTEN: ReadonlySet<string> = new Set(["before-token", "mid-stream", "mid-tool", "after"]);
/** How long an engine may take to store a message that it has sent to the model. */
const KEPT_MS = 3_000;

/** Claude's lines that name a message before it is part of the conversation. */
const NOT_YET_SAID = /"type":"(?:queue-operation|last-prompt)"/;

/** Whether the conversation in the engine's store contains this text. */
export function isKept({ lab, place }: Pick<LabWorld, "lab" | "place">, message: string): boolean {
  const needle = JSON.stringify(message).slice(1, -1);
  return lab.storeFiles(place).some((file) => {
    try {
      const lines = readFileSync(file, "utf8").split("\n");
      return lines.some((line) => line.includes(needle) && !NOT_YET_SAID.test(line));
    } catch {
      return false;
    }
  });
}

interface AttemptFile {
  readonly agent: { readonly pid: number } | null;
  readonly reported: readonly unknown[];
  readonly startedAt: string;
}

function isAt(world: LabWorld, at: CaseInterrupt["at"]): boolean {
  const attempt = attemptOf(world);
  const turn = world.server.requests.findLast(({ users }) => users.at(-1) === world.messages.at(-1));
  switch (at) {
    case "spawn":
      return attempt?.agent !== null && attempt?.agent !== undefined;
    case "session":
      return (attempt?.reported.length ?? 0) > 0;
    case "request":
    case "before-token":
      return turn !== undefined;
    case "mid-stream":
      return turn?.state === "streaming";
    case "copied":
      return turn?.state === "streaming" && (copiedAt(world) ?? "") > (attempt?.startedAt ?? "~");
    case "mid-tool":
      return existsSync(markOf(world.place));
    case "after":
      return turn?.state === "ended";
  }
}

/** The record of this step's attempt. */
export function attemptOf(world: LabWorld): AttemptFile | null {
  const directory = runDirectory(world);
  if (directory === null) return null;
  const file = join(directory, "attempts", String((world.shown?.attempts ?? 0) + 1), "meta.json");
  try {
    return JSON.parse(readFileSync(file, "utf8")) as AttemptFile;
  } catch {
    return null;
  }
}

function copiedAt(world: LabWorld): string | null {
  const directory = runDirectory(world);
  if (directory === null) return null;
  try {
    const run = JSON.parse(readFileSync(join(directory, "run.json"), "utf8")) as {
      readonly escrow: { readonly takenAt: string } | null;
    };
    return run.escrow?.takenAt ?? null;
  } catch {
    return null;
  }
}

export function runDirectory({ place, shown }: LabWorld): string | null {
  if (shown !== null) return shown.runDirectory;
  const root = join(place.state, "runs");
  const [name] = existsSync(root) ? readdirSync(root).filter((one) => !one.startsWith(".")) : [];
  return name === undefined ? null : join(root, name);
}
