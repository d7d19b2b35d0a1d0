/**
 * What must hold after any fault, seen through the next commands and judged by the engine's own session files: nothing
 * that was acknowledged is gone, every conversation continues, no message was sent twice, no files are left over.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { IoBox, EngineSession, Said } from "./io-box.ts";

interface Run {
  readonly handle: string;
  readonly runDirectory: string;
  readonly status: string;
  readonly attempts: number;
  readonly session: { readonly value: string | null };
}

interface Shown extends Run {
  readonly sessions: readonly { readonly value: string; readonly source: string }[];
  readonly history: readonly { readonly n: number; readonly state: string; readonly outcome: unknown }[];
}

const ASK = "what do you remember?";

/** The expected state in this scenario. */
export interface Expected {
  /** Attempts that end badly without any fault. */
  readonly deaths: number;
  /** Messages that a supervisor decides to say: as often as it decides so, and no more. */
  readonly again: readonly string[];
}

/** Sentences about broken promises; none: all is well. */
export async function aftermath(
  box: IoBox,
  said: readonly Said[],
  { deaths, again }: Expected,
): Promise<string[]> {
  const wrong: string[] = [];
  const busy = await box.quiet();
  if (busy.length > 0) wrong.push(`processes do not come to an end: ${busy.join(" ")}`);
  box.temporaryFiles();
  // Before any command has mended what can be mended.
  wrong.push(...tornRecords(box));
  const runs = await listed(box, wrong);
  wrong.push(...said.flatMap((one) => stackIn(one)));
  wrong.push(...missingAcks(said, runs));
  const sessions = box.engineSessions();
  wrong.push(...unknownSessions(sessions, runs));
  const before = box.events("start").length;
  for (const run of runs) wrong.push(...(await resumes(box, run, { sessions, deaths })));
  for (const { id, user } of box.engineSessions())
    for (const text of new Set(user))
      if (!again.includes(text) && user.filter((one) => one === text).length > 1)
        wrong.push(`session ${id} was told twice: ${text}`);
  if (again.length > 0) for (const run of runs) wrong.push(...(await decided(box, run, again)));
  // Older than the next start: gone before anybody asks `doctor`.
  if (box.events("start").length > before) wrong.push(...temporary(box));
  wrong.push(...(await soundness(box)), ...temporary(box));
  const strays = await box.strays();
  if (strays.length > 0) wrong.push(`stray processes: ${strays.join("; ")}`);
  return wrong;
}

async function decided(box: IoBox, { handle, session }: Run, again: readonly string[]): Promise<string[]> {
  const { stdout } = await box.say(["agent", "show", handle, "--json"]);
  const { history } = JSON.parse(stdout) as { history: { kind: string; action?: string }[] };
  const words = history.filter(
    ({ kind, action }) => kind === "decided" && (action === "nudge" || action === "resume"),
  );
  const user = box.engineSessions().find(({ id }) => id === session.value)?.user ?? [];
  const told = user.filter((text) => again.includes(text));
  return told.length <= words.length
    ? []
    : [
        `${handle} was told ${told.length} messages that ${words.length} decisions are about: ${told.join(", ")}`,
      ];
}

async function listed(box: IoBox, wrong: string[]): Promise<readonly Run[]> {
  const { code, stdout, stderr } = await box.say(["list", "--json", "--limit", "1000"]);
  try {
    const { runs } = JSON.parse(stdout) as { runs: Run[] };
    const live = runs.filter(({ status }) => status === "running");
    if (live.length > 0)
      wrong.push(`still said to be running: ${live.map(({ handle }) => handle).join(" ")}`);
    return runs;
  } catch {
    wrong.push(`the index does not open: list exits with ${code}: ${stdout}${stderr}`);
    return [];
  }
}

export function stackIn({ args, code, stderr, stdout }: Said): string[] {
  const text = stdout + stderr;
  if (code !== 70 && !/\n\s+at .+:\d+:\d+/.test(text) && !text.includes("it hung")) return [];
  return [`${args.slice(0, 2).join(" ")} ended as no fault does (${code}): ${text.slice(0, 600)}`];
}

/** Handles and sessions that were printed, by whatever command. */
export function missingAcks(said: readonly Said[], runs: readonly Run[]): string[] {
  return said.flatMap(({ args, stdout, stderr }) => {
    const what = args.slice(0, 2).join(" ");
    // What it says is a pipeline, not a run.
    if (args[0] === "pipeline") return [];
    return acknowledged(stdout, stderr).flatMap(({ handle, session, attempt, completed }) => {
      const run = runs.find((one) => one.handle === handle);
      if (run === undefined) return [`${what} said ${handle}, and there is no such run`];
      if (session !== null && run.session.value !== session)
        return [`${what} said session ${session} of ${handle}, which has ${run.session.value}`];
      if (run.attempts < attempt)
        return [`${what} said attempt ${attempt} of ${handle}, which has ${run.attempts}`];
      if (completed && run.attempts === attempt && run.status !== "completed")
        return [`${what} said that ${handle} was completed, and it is ${run.status}`];
      return [];
    });
  });
}

interface Ack {
  readonly handle: string;
  readonly session: string | null;
  readonly attempt: number;
  readonly completed: boolean;
}

function acknowledged(stdout: string, stderr: string): Ack[] {
  const found: Ack[] = [];
  const inText = /^handle\s+([0-9a-f]{8})\b/m.exec(stderr)?.[1];
  const session = /^session\s+\S+ ([0-9a-f-]{36})$/m.exec(stderr)?.[1] ?? null;
  if (inText !== undefined) found.push({ handle: inText, session, attempt: 1, completed: false });
  for (const line of stdout.split("\n")) {
    try {
      const value = JSON.parse(line) as Record<string, any>;
      const handle = value["handle"] ?? value["id"];
      if (value["ok"] !== true || typeof handle !== "string" || !/^[0-9a-f]{8}$/.test(handle)) continue;
      found.push({
        handle,
        session: value["session"]?.value ?? null,
        attempt: value["attempt"] ?? 0,
        completed: value["outcome"]?.result === "completed",
      });
    } catch {
      // Half a line was not said.
    }
  }
  return found;
}

/** An agent gets no message before the run and its session are stored (I1, I2). */
function unknownSessions(sessions: readonly EngineSession[], runs: readonly Run[]): string[] {
  return sessions
    .filter(({ id, user }) => user.length > 0 && !runs.some((run) => run.session.value === id))
    .map(({ id }) => `the engine has session ${id}, and no run knows of it`);
}

async function resumes(
  box: IoBox,
  run: Run,
  { sessions, deaths }: { readonly sessions: readonly EngineSession[]; readonly deaths: number },
): Promise<string[]> {
  const known = sessions.find(({ id }) => id === run.session.value);
  // The engine stores a message and then says so: the power may go in between.
  const stored = run.session.value !== null && box.engineHas(run.session.value);
  const before = box.events("start").length;
  const { stdout, stderr } = await box.say(["resume", "--json", run.handle, `${ASK} ${run.handle}`]);
  let answer: Record<string, any>;
  try {
    answer = JSON.parse(stdout) as Record<string, any>;
  } catch {
    return [`resume ${run.handle} said no JSON: ${stdout}${stderr}`];
  }
  const starts = box.events("start").length - before;
  if (known === undefined || known.user.length === 0) {
    if (!stored && (answer["ok"] === true || starts > 0))
      return [`${run.handle} has no session and was resumed all the same`];
    return [];
  }
  const text = String(answer["text"]);
  if (answer["ok"] !== true)
    return [`${run.handle} has a session and does not resume: ${stdout.trim().slice(0, 400)}`];
  const forgot = known.user.filter((one) => !text.includes(quoted(one)));
  return [
    ...(forgot.length > 0 ? [`${run.handle} has forgotten: ${forgot.join(", ")}; it says: ${text}`] : []),
    ...(starts === 1 ? [] : [`resume ${run.handle} started ${starts} agents`]),
    ...(answer["receipt"]?.verified === "engine_reported" ? [] : [`resume ${run.handle} has no proof`]),
    ...(await recorded(box, run.handle, deaths)),
  ];
}

/** As the scripted agents repeat it: without their cues, and the beginning alone. */
function quoted(message: string): string {
  const [line = ""] = message.replaceAll(/\s*@@\S+/g, "").split("\n");
  return line.slice(0, 60);
}

/** At most the attempt that was in flight is interrupted, and no conversation is recorded that no agent had. */
async function recorded(box: IoBox, handle: string, deaths: number): Promise<string[]> {
  const { stdout } = await box.say(["show", "--json", handle]);
  const shown = JSON.parse(stdout) as Shown;
  const broken = shown.history.filter(
    ({ outcome }) => (outcome as { result?: string } | null)?.result !== "completed",
  );
  const had = new Set(box.events("session").map(({ session }) => String(session)));
  const invented = shown.sessions.filter(({ value, source }) => source !== "chosen" && !had.has(value));
  return [
    ...(broken.length <= deaths + 1 ? [] : [`${handle}: ${broken.length} attempts are not completed`]),
    ...invented.map(({ value }) => `${handle} has session ${value}, which no agent ever had`),
  ];
}

/** The index's own checksums, and all that `doctor` looks at. */
async function soundness(box: IoBox): Promise<string[]> {
  const wrong: string[] = [];
  // Without the engines on its PATH it does not ask each for its version, which is most of its time.
  const path = (process.env["PATH"] ?? "").split(":").filter((one) => one !== box.bin);
  const { code, stdout, stderr } = await box.say(["doctor", "--json"], { PATH: path.join(":") });
  try {
    const health = JSON.parse(stdout) as { findings: { level: string; what: string }[] };
    for (const { level, what } of health.findings)
      if (level === "attention") wrong.push(`doctor finds: ${what}`);
  } catch {
    wrong.push(`doctor exits with ${code}: ${stdout}${stderr}`);
  }
  return wrong;
}

function temporary(box: IoBox): string[] {
  const left = box.temporaryFiles();
  return left.length === 0 ? [] : [`temporary files stay: ${left.join(" ")}`];
}

/** Records are replaced as a whole: a reader at any moment finds a whole one. */
function tornRecords(box: IoBox): string[] {
  const wrong: string[] = [];
  for (const directory of box.runDirectories()) {
    for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
      if (/(^|\/)work(tree)?\//.test(name) || !name.endsWith(".json")) continue;
      try {
        JSON.parse(readFileSync(join(directory, name), "utf8"));
      } catch {
        wrong.push(`${join(directory, name)} is not JSON`);
      }
    }
  }
  return wrong;
}
