/**
 * What Codex may do only when it is allowed to, asked and answered in a review: on the screen, by policy, and again after
 * a resume, for Codex forgets with its process what was allowed for the session.
 */
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LabWorld } from "../src/certify/world.ts";
import { processesOf, signal, until } from "../src/certify/place.ts";
import { DEADLINE_MS, type Line, must, Review } from "./review.ts";
import type { Terminal } from "./terminal.ts";

type Act = (world: LabWorld, words: readonly string[]) => Promise<void>;

const FILE = "made-by-codex";
/** What the model does, by what Codex then asks about. */
const WISHES: Readonly<Record<string, string>> = {
  command: `@@escalate:touch ${FILE}`,
  files: `@@patch:${FILE}`,
};
/** Of the files that `@@patch-edit` changes and removes. */
const DIFF = [
  "update README.txt",
  "-A project for an agent to work in.",
  "+A project that was edited.",
  "delete gone.txt",
  "-removed line",
];
const ASKED = "[y] once · [a] this session · [n] decline · [c] cancel the turn";
/** Longer than the time in which a key counts as pressed before the question. */
const AGAIN_MS = 700;
const PROMPT = "Resume? [y/n]";

/** What a key says to Codex, and what comes of it. */
const KEYS: Readonly<Record<string, { says: string; wire: string; ends: string; done: boolean }>> = {
  y: { says: "accept", wire: "accept", ends: "completed", done: true },
  n: { says: "decline", wire: "decline", ends: "completed", done: false },
  c: { says: "cancel", wire: "cancel", ends: "interrupted", done: false },
  a: { says: "accept_for_session", wire: "acceptForSession", ends: "completed", done: true },
};

export const APPROVAL_ACTS: Readonly<Record<string, Act>> = {
  /** Words: the key, and the subject of the question. */
  "review-approval": async (world, [key = "", about = ""]) => {
    const { says, wire, ends, done } = KEYS[key] ?? fail(`no such key: ${key}`);
    const review = new Review(world);
    review.comments(`Do it. ${wish(about)}`);
    const ui = await asked(review, await review.open());
    must(ui.text().includes(FILE), "the screen does not show what is asked for");
    must(answers(review).length === 0 && !isMade(world), "it was answered before anybody was asked");
    await answer(ui, key);
    await ui.shows(new RegExp(`Codex execution ${ends}[^\\n]*\\s*$`));
    must(isMade(world) === done, done ? "what was approved was not done" : "it was done all the same");
    same(answers(review), [`${about} ${says} user`]);
    same(sent(review), [wire]);
    must(review.sidecar().status === ends, `the sidecar says ${review.sidecar().status}`);
    if (ends === "interrupted") await continues(review, ui);
    await quit(review, ui);
  },
  /** What would become of each file is shown, all of it can be scrolled to, and the transcript has it with the answer. */
  "review-approval-diff": async (world) => {
    const review = new Review(world);
    const { project } = world.place;
    writeFileSync(join(project, "old.txt"), "one\ntwo\nthree\n");
    writeFileSync(join(project, "gone.txt"), "removed line\n");
    review.comments(`Do it. @@patch-edit:${FILE}`);
    const ui = await asked(review, await review.open());
    for (const line of DIFF) must(ui.text().includes(line), `the screen does not show ${line}`);
    ui.press("G");
    await ui.shows("+zwei");
    await answer(ui, "y");
    await completed(ui);
    const [told] = review.transcript().filter(({ type }) => type === "approval");
    const diffs = (told?.changes ?? []).map(({ what, diff }) => `${what}\n${diff}`).join("\n");
    const whole = [...DIFF, "update old.txt → moved.txt", "+zwei", "add made-by-codex", "+patched"];
    for (const line of whole) must(diffs.includes(line), `the transcript does not have ${line}: ${diffs}`);
    await quit(review, ui);
  },
  /**
   * Words: the subject of the question, and how it is interrupted. Codex does not ask twice in one turn, but asks again
   * in the next.
   */
  "review-approval-again": async (world, [about = "", how = ""]) => {
    const review = new Review(world);
    await approvedForSession(world, review, { about, how });
    const ui = await review.open();
    await continues(review, ui, wish(about));
    await ui.shows(ASKED);
    await answer(ui, "n");
    await completed(ui);
    must(!isMade(world), "what was declined was done");
    same(answers(review), [`${about} accept_for_session user`, `${about} decline user`]);
    await quit(review, ui);
  },
  /** Words: the subject of the question, how it is interrupted, and how it continues: ui or run. */
  "review-approval-kept": async (world, [about = "", how = "", then = ""]) => {
    const review = new Review(world);
    await approvedForSession(world, review, { about, how });
    if (then === "ui") {
      const ui = await review.open("--keep-approvals");
      await continues(review, ui, wish(about));
      await completed(ui);
      await quit(review, ui);
    } else {
      review.comments(`Once more. ${wish(about)}`);
      const { answer: said } = await review.send("--resume", "always", "--keep-approvals");
      must(said.ok && said.resumed, "it was not resumed");
    }
    must(isMade(world), "what was approved for the session was not done");
    same(answers(review), [`${about} accept_for_session user`, `${about} accept kept`]);
  },
  /** What was approved for the session holds for nothing else. */
  "review-approval-of-another": async (world) => {
    const review = new Review(world);
    await approvedForSession(world, review, { about: "command", how: "key" });
    review.comments(`Something else. @@escalate:touch ${FILE} ${FILE}-too`);
    const { answer: said } = await review.send("--resume", "always", "--keep-approvals");
    must(said.ok && said.resumed, "it was not resumed");
    must(!isMade(world), "another command was approved with it");
    same(answers(review), ["command accept_for_session user", "command decline policy"]);
  },
  /** Nobody can be asked. Words: the subject of the question. */
  "review-approval-headless": async (world, [about = ""]) => {
    const review = new Review(world);
    review.comments(`Do it. ${wish(about)}`);
    const { answer: said } = await review.send();
    must(said.ok && !isMade(world), "what nobody approved was done");
    same(answers(review), [`${about} decline policy`]);
    same(sent(review), ["decline"]);
  },
  /** Codex may not even ask. Words: what it would ask about. */
  "review-approval-never": async (world, [about = ""]) => {
    const review = new Review(world);
    review.comments(`Do it. ${wish(about)}`);
    const { answer: said } = await review.send("--approve", "never");
    must(said.ok && !isMade(world), "what nobody approved was done");
    same(answers(review), []);
    must(questions(review).length === 0, "Codex asked although it may not");
  },
  /** Words: the subject of the question. The question dies with its process, and nothing is taken for an answer. */
  "review-approval-pending": async (world, [about = ""]) => {
    const review = new Review(world);
    review.comments(`Do it. ${wish(about)}`);
    await killAll(world, review, await asked(review, await review.open()));
    same(answers(review), []);
    const ui = await review.open("--keep-approvals");
    await continues(review, ui);
    must(!isMade(world), "what nobody approved was done");
    must(questions(review).length === 1, "Codex asked again");
    same(answers(review), []);
    await quit(review, ui);
  },
};

/** A turn with two equal wishes, one question, an answer for the session, and an end that is no end. */
async function approvedForSession(
  world: LabWorld,
  review: Review,
  { about, how }: { about: string; how: string },
): Promise<void> {
  const again = about === "command" ? [`@@escalate-again:touch ${FILE}`] : [];
  world.server.script([wish(about), ...again, "@@slow:60000"]);
  review.comments("Do it.");
  const ui = await asked(review, await review.open());
  await answer(ui, "a");
  await review.streaming(again.length + 2);
  must(isMade(world), "what was approved was not done");
  must(questions(review).length === 1, "the same was asked twice in one turn");
  must(review.sidecar().approvals.length === 1, "the sidecar does not keep it");
  rmSync(join(world.place.project, FILE));
  if (how === "kill") return killAll(world, review, ui);
  ui.press("i");
  await ui.shows("Codex execution interrupted");
  await quit(review, ui);
}

/** The terminal is killed with the others. */
async function killAll({ place }: LabWorld, review: Review, ui: Terminal): Promise<void> {
  for (const pid of processesOf(place.root)) signal(pid, "SIGKILL");
  await review.end(ui);
  await until("nobody is left", () => processesOf(place.root).length === 0, DEADLINE_MS);
}

async function asked(review: Review, ui: Terminal): Promise<Terminal> {
  ui.press("x");
  await ui.shows(ASKED);
  await until("the question is in the transcript", () => questions(review).length === 1, DEADLINE_MS);
  return ui;
}

/** A key that comes too soon after the question does not answer it, and is pressed again. */
async function answer(ui: Terminal, key: string): Promise<void> {
  const isAnswered = () => !ui.text().includes(ASKED);
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    ui.press(key);
    if (await until("the question is gone", isAnswered, AGAIN_MS).catch(() => false)) return;
    must(Date.now() < end, "the question was never answered");
  }
}

/** The session is offered and accepted; without a directive also completed. */
async function continues(review: Review, ui: Terminal, directive = ""): Promise<void> {
  review.comments(`Today. ${directive}`);
  ui.press("r");
  await ui.shows("Today.");
  const before = review.turns().length;
  ui.press("x");
  await ui.shows(PROMPT);
  ui.press("y");
  await until("the model is asked", () => review.turns().length > before, DEADLINE_MS);
  const { users } = review.lastTurn();
  must(users.length > 1 && users[0]?.includes("Do it.") === true, "it is another conversation");
  if (directive === "") await completed(ui);
}

async function completed(ui: Terminal): Promise<void> {
  await ui.shows(/Codex execution completed\s*$/);
}

async function quit(review: Review, ui: Terminal): Promise<void> {
  ui.press("q");
  const { code } = await review.end(ui);
  must(code === 0, `the UI ended with ${code}`);
}

function wish(about: string): string {
  return WISHES[about] ?? fail(`nothing is asked about ${about}`);
}

function isMade({ place }: LabWorld): boolean {
  return existsSync(join(place.project, FILE));
}

/** What the transcript says about answers: what about, which, and whose. */
function answers(review: Review): readonly string[] {
  return review
    .transcript()
    .filter(({ type }) => type === "approval")
    .map(({ about, decision, by, what }) => {
      must(what?.includes(FILE) === true, `the transcript does not tell what was approved: ${what}`);
      return `${about} ${decision} ${by}`;
    });
}

/** What Codex was really told. */
function sent(review: Review): readonly string[] {
  return review
    .transcript()
    .filter(({ dir, message }) => dir === "out" && message?.result?.decision !== undefined)
    .map(({ message }) => String(message?.result?.decision));
}

function questions(review: Review): readonly Line[] {
  return review
    .transcript()
    .filter(({ dir, message }) => dir === "in" && message?.method?.endsWith("requestApproval") === true);
}

function same(found: readonly string[], wanted: readonly string[]): void {
  must(
    found.join("\n") === wanted.join("\n"),
    `${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`,
  );
}

function fail(why: string): never {
  throw new Error(why);
}
