/**
 * `reprise review` with the real Codex: an interrupted session is offered and continues with today's comments,
 * whichever process died at any message.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DUPLICATE, NEW_CONVERSATION } from "../src/certify/checks.ts";
import type { LabWorld } from "../src/certify/world.ts";
import type { LabPlace } from "../src/certify/lab.ts";
import { commandOf, type Ended, processesOf, type Running, signal, until } from "../src/certify/place.ts";
import { DEADLINE_MS, type Hold, must, Review, type SidecarFile } from "./review.ts";
import type { Terminal } from "./terminal.ts";

type Act = (world: LabWorld, words: readonly string[]) => Promise<void>;

const YESTERDAY = "First: rename this.";
export const BETWEEN = "Then: rename that.";
export const TODAY = "Today: rename it all.";
/** As much of a comment as the list has room for. */
const SHOWN = TODAY.slice(0, 10);
export const PROMPT = /Interrupted session from \d\d:\d\d\. Resume\? \[y\/n\]/;

export const REVIEW_ACTS: Readonly<Record<string, Act>> = {
  /** Nothing is offered without a session, nor after a completed one. */
  "review-nothing-to-resume": async (world) => {
    const review = new Review(world);
    review.comments(YESTERDAY);
    const ui = await review.open();
    for (const turns of [1, 2]) {
      ui.press("x");
      await until("a turn", () => review.turns().length === turns, DEADLINE_MS);
      await completed(ui);
      must(!PROMPT.test(ui.text()), "a session was offered");
      must(review.lastTurn().users.length === 1, "the second turn was no fresh conversation");
      must(review.sidecars().length === turns, "there is another number of sidecars");
      says(review, "completed");
    }
    await quit(review, ui);
  },
  /** Words: how the first turn is interrupted. The session is offered, and `y` goes on with it. */
  "review-ui-accept": async (world, [how = ""]) => {
    const review = new Review(world);
    review.comments(`${YESTERDAY} @@slow:60000`);
    const first = await interrupted(world, review, how);
    review.comments(YESTERDAY, TODAY);
    const ui = first ?? (await review.open());
    // The UI that is still open has the comments of yesterday.
    if (first !== null) ui.press("r");
    await ui.shows(SHOWN);
    const before = review.turns().length;
    ui.press("x");
    await ui.shows(PROMPT);
    must(review.turns().length === before, "the model was asked before the question was answered");
    const expected = expectation(world, review);
    ui.press("y");
    await completed(ui);
    says(review, "completed");
    continued(world, review, expected);
    ui.press("x");
    await until("a fresh turn", () => review.turns().length === before + 2, DEADLINE_MS);
    must(review.lastTurn().users.length === 1, "a completed session was continued");
    await completed(ui);
    says(review, "completed");
    await quit(review, ui);
  },
  /** Words: the key that declines. It starts fresh, and the session is not offered again but stays in the list. */
  "review-ui-decline": async (world, [key = ""]) => {
    const review = new Review(world);
    review.comments(`${YESTERDAY} @@slow:60000`);
    const ui = (await interrupted(world, review, "key")) ?? (await review.open());
    const declined = review.sidecar();
    review.comments(TODAY);
    ui.press("r");
    await ui.shows(SHOWN);
    ui.press("x");
    await ui.shows(PROMPT);
    ui.press(key);
    await completed(ui);
    fresh(review, 2);
    ui.press("x");
    await until("a third turn", () => review.turns().length === 3, DEADLINE_MS);
    must(!PROMPT.test(ui.text()), "the declined session was offered again");
    fresh(review, 3);
    await completed(ui);
    says(review, "completed");
    await quit(review, ui);
    must(review.sidecars()[0]?.declined_at !== null, "nothing tells that it was declined");
    const { stdout } = await review.reprise("list", "--json");
    must(stdout.includes(declined.handle), "the declined session is not in the list");
  },
  /** A session that the user discards is not offered. */
  "review-ui-discard": async (world) => {
    const review = new Review(world);
    review.comments(`${YESTERDAY} @@slow:60000`);
    const ui = await started(review, await review.open());
    ui.press("q");
    await ui.shows("[d] discard and quit");
    ui.press("d");
    must((await review.end(ui)).code === 0, "it did not end well");
    says(review, "cancelled");
    review.comments(TODAY);
    const { answer } = await review.send("--resume", "auto");
    must(!answer.resumed, "a discarded session was resumed");
    fresh(review, 2);
  },
  /** Words: who is killed (SIGINT: Reprise is asked to stop), at which message, and how it goes on: run or ui. */
  "review-kill": async (world, [who = "", at = "", then = "run"]) => {
    const review = new Review(world);
    await killed(world, review, { who, at });
    await goesOn(world, review, then);
  },
  /** The same in the turn of a resume. */
  "review-kill-again": async (world, [who = "", at = "", then = "run"]) => {
    const review = new Review(world);
    await killed(world, review, { who: "both", at: "first-delta" });
    await killed(world, review, { who, at, resumes: true });
    await goesOn(world, review, then);
  },
  /** The session is a run like any other: `reprise resume` goes on with it, and then it is not interrupted any more. */
  "review-resume-by-handle": async (world) => {
    const review = new Review(world);
    review.comments(`${YESTERDAY} @@slow:60000`);
    const running = review.headless();
    await review.streaming();
    await until("the comments are written down", () => review.stored(YESTERDAY).length > 0, DEADLINE_MS);
    signal(running.pid, "SIGINT");
    must((await review.end(running)).code === 130, "it did not end by the interrupt");
    says(review, "interrupted");
    world.resumes.meant += 1;
    const { code } = await review.reprise("resume", review.sidecar().handle, TODAY);
    const { users } = review.lastTurn();
    must(code === 0 && users.length === 2 && users[1] === TODAY, `exit ${code}: ${JSON.stringify(users)}`);
    world.resumes.worked += 1;
    says(review, "completed");
    const ends = review.transcript().filter(({ type }) => type === "attempt_ended");
    must(ends.length === 1 && ends[0]?.attempt === 2, "the transcript does not tell of the resume by handle");
    review.comments(TODAY);
    const { answer } = await review.send("--resume", "auto");
    must(!answer.resumed, "a session that was finished since was resumed");
    fresh(review, 3);
  },
  /** Words: what stands in the way of the first turn, and how it goes on: run or ui. The session is offered, with the cause. */
  "review-passing": async (world, [trouble = "", then = "run"]) => {
    const review = new Review(world);
    review.comments(`${YESTERDAY} @@${trouble}`);
    const { ended, answer } = await review.send();
    must(!answer.ok && ended.code !== 0 && answer.status === "failed", `it ended with ${ended.code}`);
    says(review, "interrupted");
    await goesOn(world, review, then);
  },
  /** `--resume always` with nothing to resume, and with a session that is gone. */
  "review-always": async (world) => {
    const review = new Review(world);
    review.comments(TODAY);
    const nothing = await review.send("--resume", "always");
    must(nothing.ended.code === 1 && review.turns().length === 0, "it went on with nothing");
    await killed(world, review, { who: "both", at: "thread-answered" });
    const gone = await review.send("--resume", "always");
    must(gone.ended.code === 1 && review.turns().length === 0, "it went on with a session that is gone");
    must(/cannot be resumed/.test(gone.ended.stdout), `no word of it: ${gone.ended.stdout}`);
  },
};

async function started(review: Review, ui: Terminal): Promise<Terminal> {
  ui.press("x");
  await review.streaming();
  await until("the comments are written down", () => review.stored(YESTERDAY).length > 0, DEADLINE_MS);
  ui.press("x");
  await ui.shows("Codex is already at work");
  return ui;
}

/** A turn in the UI that does not end by itself. Returns the UI where it is still open. */
async function interrupted(world: LabWorld, review: Review, how: string): Promise<Terminal | null> {
  const ui = await started(review, await review.open());
  if (how === "key") ui.press("i");
  else if (how === "quit") {
    ui.press("q");
    await ui.shows("[i] interrupt and quit");
    ui.press("i");
  } else if (how === "ctrl-c") {
    ui.press("C-c");
    await ui.shows("[i] interrupt and quit");
    ui.press("C-c");
  } else if (how === "pane") ui.close("SIGHUP");
  else if (how === "terminal") ui.close("SIGKILL");
  else if (how === "reprise") signal(ui.pid, "SIGKILL");
  else if (how === "SIGTERM") signal(ui.pid, "SIGTERM");
  else if (how === "codex") signal(codexOf(world), "SIGKILL");
  else throw new Error(`no such interruption: ${how}`);
  if (how === "key" || how === "codex") {
    await ui.shows("Codex execution interrupted");
    says(review, "interrupted");
    return ui;
  }
  await review.end(ui);
  await until("Codex is gone", () => processesOf(world.place.root).length === 0, DEADLINE_MS);
  const { status } = review.sidecar();
  const wanted = how === "reprise" || how === "terminal" ? ["running", "interrupted"] : ["interrupted"];
  must(wanted.includes(status), `the sidecar says ${status}`);
  return null;
}

/** The real program, not the wrapper before it. */
function codexOf({ place, lab }: LabWorld): number {
  const pid = processesOf(place.root).find((one) => commandOf(one).startsWith(lab.program));
  if (pid === undefined) throw new Error("there is no Codex");
  return pid;
}

interface Point {
  readonly hold: Hold;
  /** What the comment has the model do. */
  readonly directive?: string;
  readonly flags?: readonly string[];
  /** What must be there besides the message. */
  readonly until?: (review: Review, place: LabPlace) => boolean;
}

const out = (text: string): Hold => ({ side: "out", text: `"method":"${text}"`, when: "after" });
const heard = (text: string): Hold => ({ side: "in", text, when: "after" });
export const NEVER = "must-not-be-there";
const isNamed = (review: Review) => (review.sidecar().thread_id ?? "") !== "";

/** Every message of a turn at which somebody can die. */
const POINTS: Readonly<Record<string, Point>> = {
  "initialize-sent": { hold: { side: "in", text: '"userAgent"', when: "before" } },
  initialized: { hold: out("initialized") },
  "thread-sent": { hold: out("thread/start") },
  "thread-answered": { hold: heard('"id":2,'), until: isNamed },
  "turn-sent": { hold: out("turn/start") },
  "turn-answered": { hold: heard('"id":3,') },
  "turn-started": { hold: heard('"method":"turn/started"') },
  "first-delta": { hold: heard("item/agentMessage/delta"), directive: "@@slow:60000" },
  "mid-stream": { hold: { ...heard("item/agentMessage/delta"), nth: 40 }, directive: "@@long:2000" },
  "mid-tool": {
    hold: heard('"commandExecution"'),
    directive: "@@tool:touch tool-runs; tail -f /dev/null",
    flags: ["--sandbox", "danger-full-access"],
    until: (_, place) => existsSync(join(place.project, "tool-runs")),
  },
  "approval-pending": { hold: heard("requestApproval"), directive: `@@escalate:touch ${NEVER}` },
  "last-delta": { hold: { side: "in", text: '"method":"turn/completed"', when: "before" } },
  "turn-completed": { hold: { ...heard('"method":"turn/completed"'), stays: true } },
  "resume-sent": { hold: out("thread/resume") },
};

interface Kill {
  readonly who: string;
  readonly at: string;
  readonly resumes?: true;
  readonly flags?: readonly string[];
}

export async function killed(
  world: LabWorld,
  review: Review,
  { who, at, resumes, flags = [] }: Kill,
): Promise<void> {
  const point = POINTS[at];
  if (point === undefined) throw new Error(`no such moment: ${at}`);
  const text = resumes === true ? BETWEEN : YESTERDAY;
  review.comments([text, point.directive ?? ""].join(" ").trim());
  review.hold(point.hold);
  const when = resumes === true ? "always" : "never";
  const running = review.headless("--resume", when, ...(point.flags ?? []), ...flags);
  const isThere = () =>
    review.held() !== null &&
    (point.hold.when === "before" || isWritten(review, point.hold)) &&
    (point.until?.(review, world.place) ?? true);
  await atOnce(running, `the moment "${at}"`, isThere);
  if (who === "reprise") signal(running.pid, "SIGKILL");
  else if (who === "SIGINT") signal(running.pid, "SIGINT");
  else if (who === "codex") signal(review.held() ?? -1, "SIGKILL");
  else for (const pid of [running.pid, ...processesOf(world.place.root)]) signal(pid, "SIGKILL");
  const ended = await review.end(running);
  must(ended.code !== 0 || at === "turn-completed", "it ended as if all were well");
  await until("nobody is left", () => processesOf(world.place.root).length === 0, DEADLINE_MS);
  review.release();
  for (const sidecar of review.sidecars()) review.transcript(sidecar);
}

/** Reprise has heard or said it. */
function isWritten(review: Review, { side, text, nth }: Hold): boolean {
  const lines = review
    .transcript()
    .filter(({ dir, message }) => dir === side && JSON.stringify(message).includes(text));
  return lines.length >= (nth ?? 1);
}

/** Ends at once when Reprise does. */
async function atOnce(running: Running, what: string, look: () => boolean): Promise<void> {
  let over: Ended | null = null;
  void running.ended.then((ended) => (over = ended));
  await until(what, () => over !== null || look(), DEADLINE_MS);
  must(over === null, `Reprise ended before ${what}: ${JSON.stringify(over)}`);
}

/** What the next turn has to carry. */
interface Expected {
  readonly sidecar: SidecarFile;
  readonly sidecars: number;
  /** Messages that Codex had kept, in order. */
  readonly kept: readonly string[];
  readonly requests: number;
}

/** Taken before the next turn. */
function expectation({ lab, place }: LabWorld, review: Review): Expected {
  const sidecar = review.sidecar();
  const thread = sidecar.thread_id ?? "";
  const kept = [YESTERDAY, BETWEEN].filter((text) => review.stored(text).length > 0);
  const other = lab.storeFiles(place).filter((file) => thread === "" || !file.includes(thread));
  must(other.length === 0, `Codex has a conversation that Reprise does not know of: ${other.join(", ")}`);
  return { sidecar, sidecars: review.sidecars().length, kept, requests: review.turns().length };
}

/** The next turn continues wherever Codex had written something; elsewhere a fresh one says so. */
export async function goesOn(world: LabWorld, review: Review, then: string): Promise<void> {
  const expected = expectation(world, review);
  // Without its first prompt a session holds no conversation: Reprise starts a fresh one and says so.
  const isKept = review.stored(YESTERDAY).length > 0;
  const wasCompleted = (await statusOf(review, expected.sidecar.handle)) === "completed";
  const { status } = expected.sidecar;
  must(!["failed", "cancelled"].includes(status), `the sidecar says ${status}`);
  review.comments(YESTERDAY, TODAY);
  const isMeant = isKept && !wasCompleted;
  if (then === "ui" && isMeant) await acceptInUi(review);
  else {
    const { ended, answer } = await review.send("--resume", "auto");
    must(ended.code === 0 && answer.ok, `it ended with ${ended.code}`);
    must(answer.resumed === isMeant, `resumed: ${answer.resumed}, kept by Codex: ${isKept}`);
    const isKnown = expected.sidecar.thread_id !== null && !wasCompleted;
    const warned = /cannot be resumed: .*Reprise starts a new session/.test(ended.stderr);
    must(warned === (isKnown && !isMeant), `its word on it: ${ended.stderr}`);
  }
  says(review, "completed");
  must(!existsSync(join(world.place.project, NEVER)), "what nobody approved was done");
  if (isMeant) continued(world, review, expected);
  else fresh(review, expected.requests + 1);
}

async function acceptInUi(review: Review): Promise<void> {
  const ui = await review.open();
  ui.press("x");
  await ui.shows(PROMPT);
  ui.press("y");
  await completed(ui);
  await quit(review, ui);
}

async function statusOf(review: Review, handle: string): Promise<string> {
  const { stdout } = await review.reprise("show", "--json", handle);
  return (JSON.parse(stdout) as { status: string }).status;
}

/** The same conversation, session and transcript; today's comments once, and everything that Codex had kept once. */
function continued({ resumes }: LabWorld, review: Review, expected: Expected): void {
  resumes.meant += 1;
  const { users } = review.lastTurn();
  const list = JSON.stringify(users.map((text) => text.slice(0, 80)));
  must(users.at(-1)?.includes(TODAY) === true, `today's comments are missing: ${list}`);
  const carried = expected.kept.filter((text) => users.slice(0, -1).some((user) => user.includes(text)));
  must(carried.length === expected.kept.length, `${NEW_CONVERSATION}: ${list}`);
  must(new Set(users).size === users.length, `${DUPLICATE}: ${list}`);
  must(review.turns().length === expected.requests + 1, "the model was asked more than once");
  const { sidecar } = expected;
  must(review.sidecars().length === expected.sidecars, "the resume made another sidecar");
  must(review.sidecar().thread_id === sidecar.thread_id, "it is another thread");
  const separators = review.transcript().filter(({ type }) => type === "session_resumed");
  must(separators.length > 0, "the transcript does not tell of the resume");
  const asked = review.transcript().filter(({ message }) => message?.method === "thread/resume");
  must(asked.length > 0, "Codex was not asked to resume");
  resumes.worked += 1;
}

function fresh(review: Review, requests: number): void {
  const { users } = review.lastTurn();
  must(users.length === 1 && users[0]?.includes(TODAY) === true, `not fresh: ${JSON.stringify(users)}`);
  must(review.turns().length === requests, `${review.turns().length} requests instead of ${requests}`);
}

export function says(review: Review, wanted: string): void {
  const { status } = review.sidecar();
  must(status === wanted, `the sidecar says ${status} instead of ${wanted}`);
}

/** The status bar says so: the lines above may belong to an earlier turn. */
async function completed(ui: Terminal): Promise<void> {
  await ui.shows(/Codex execution completed\s*$/);
}

export async function quit(review: Review, ui: Terminal): Promise<void> {
  ui.press("q");
  const { code } = await review.end(ui);
  must(code === 0, `the UI ended with ${code}`);
}
