/**
 * Compares a step with its expectations: Reprise's exit and records on one side, the requests that the model really
 * received on the other. Pure. Returns one sentence per failure; an empty list means that all hold.
 */
import type { CaseExpect, CaseStep } from "./case.ts";
import { changedRights, delivered, type DeliveredRights } from "./deliveries.ts";
import type { Evidence, Lab, LabPlace, LabSight } from "./lab.ts";
import { FORGED, SEQUENCES } from "./model-server/directives.ts";
import type { RequestRecord } from "./model-server/server.ts";
import { isSummary } from "./model-server/dialect.ts";
import type { Ended } from "./place.ts";
import { plural } from "../lib/plural.ts";

/** The checked parts of `reprise show --json`. */
export interface Shown {
  readonly handle: string;
  readonly status: string;
  readonly attempts: number;
  readonly runDirectory: string;
  readonly session: { readonly value: string | null };
  readonly history: readonly ShownAttempt[];
}

export interface ShownAttempt {
  readonly n: number;
  readonly kind: string;
  readonly reported: readonly { readonly value: string; readonly source: string }[];
  readonly mode: string;
  readonly interactive: boolean;
  readonly outcome: {
    readonly result: string;
    readonly trouble?: { readonly kind: string; readonly resetsAt?: string };
  } | null;
  readonly receipt: {
    readonly verified: string;
    readonly asked: string;
    readonly restoredFromEscrow: boolean;
  } | null;
}

export interface CheckFacts {
  readonly ended: Ended;
  /** Null: the run was never recorded. */
  readonly shown: Shown | null;
  /** The code of the printed fault, if any. */
  readonly fault: string | null;
  readonly sessionBefore: string | null;
  /** The engine's requests in this step. */
  readonly turns: readonly RequestRecord[];
  /** Earlier messages in the engine's store when this step began. */
  readonly persisted: readonly string[];
  /** Every message of the case so far, including this step's. */
  readonly messages: readonly string[];
  /** Terminal output of other commands about this attempt, by command. */
  readonly pages: Readonly<Record<string, string>>;
  readonly stdoutLog: string;
  /** The engine's log of this turn. */
  readonly turnLog: string;
  /** The screen of the engine's UI with the answer. Null: no UI. */
  readonly screen: string | null;
  readonly rightsBefore: DeliveredRights;
  /** The engine's rights in this step, as far as it shows them. */
  readonly rights: DeliveredRights;
  /** The number of conversations in the engine's store. Null: cannot be counted. */
  readonly conversations: number | null;
  /** Another conversation of the engine, not the run's. Null: there is no other. */
  readonly decoy: string | null;
}

/** Failures that the whole suite counts by name. */
export const NEW_CONVERSATION = "an unnoticed new conversation";
export const DUPLICATE = "a message was delivered twice";

export function check(step: CaseStep, facts: CheckFacts, lab: Lab, place: LabPlace): readonly string[] {
  const always = invariants(step, facts);
  const special = step.expectFor?.[lab.id];
  const expected = special?.expect ?? step.expect ?? {};
  const alternatives = Array.isArray(expected) ? expected : [expected];
  const tried = alternatives.map((one) => against(withDefaults(one, step), facts, lab, place));
  const best = tried.find((wrong) => wrong.length === 0);
  if (best !== undefined) return always;
  if (tried.length === 1) return [...always, ...(tried[0] ?? [])];
  return [...always, ...tried.map((wrong, n) => `not as allowed (${n + 1}): ${wrong.join("; ")}`)];
}

/** Hold in every case: nothing is delivered twice, and a resume never starts a new conversation silently. */
function invariants(step: CaseStep, facts: CheckFacts): readonly string[] {
  const wrong: string[] = [];
  for (const turn of facts.turns) {
    for (const message of new Set(facts.messages)) {
      if (count(turn.users, message) > count(facts.messages, message))
        wrong.push(`${DUPLICATE}: ${quoted(message)}`);
    }
  }
  wrong.push(...deliveries(facts));
  if (step.resume !== undefined && (step.resume.native ?? []).length === 0)
    wrong.push(...changedRights(facts.rightsBefore, facts.rights));
  const last = facts.turns.at(-1);
  if (
    step.resume !== undefined &&
    facts.ended.code === 0 &&
    last !== undefined &&
    facts.persisted.length > 0
  ) {
    const carried = facts.persisted.some((message) => count(last.users, message) > 0);
    if (!carried)
      wrong.push(`${NEW_CONVERSATION}: the model saw none of the messages that the engine had kept`);
  }
  wrong.push(...waitingHelps(step, facts));
  // A forged id must not appear at all, even where Reprise chose the right id in the end.
  const named = facts.shown?.history.flatMap(({ reported }) => reported.map(({ value }) => value)) ?? [];
  for (const id of [facts.shown?.session.value ?? "", ...named]) {
    const isForged = Object.values(FORGED).includes(id as never) || id === facts.decoy;
    if (isForged) wrong.push(`a session id was taken from text: ${id}`);
  }
  return [...new Set(wrong)];
}

/** The step's message begins at most one turn of the model, and no other message begins any. */
function deliveries({ turns, messages }: CheckFacts): readonly string[] {
  const begun = delivered(turns);
  return [...new Set(begun)].flatMap((message) => {
    const times = begun.filter((one) => one === message).length;
    if (count(messages, message) === 0)
      return [`a turn began with a message that was never sent: ${quoted(message)}`];
    if (times <= (message === messages.at(-1) ? 1 : 0)) return [];
    return [`${DUPLICATE}: ${times} × a turn of this step began with ${quoted(message)}`];
  });
}

const WAITING_HELPS: ReadonlySet<string> = new Set(["rate_limited", "overloaded", "network"]);

/** Exit 75 exactly if the same command may succeed later. */
function waitingHelps(step: CaseStep, { shown, fault, ended }: CheckFacts): readonly string[] {
  if (step.interrupt !== undefined || shown === null || fault !== null) return [];
  const kind = shown.history.at(-1)?.outcome?.trouble?.kind ?? "none";
  const helps = WAITING_HELPS.has(kind);
  return helps === (ended.code === 75) ? [] : [`exit ${ended.code} with the trouble ${kind}`];
}

function withDefaults(expect: CaseExpect, step: CaseStep): CaseExpect {
  if (step.interrupt !== undefined) return expect;
  if (expect.continues === true) return expect;
  const isOrdinary = expect.exit === undefined && expect.fault === undefined && expect.status === undefined;
  if (!isOrdinary) return expect;
  const resumed = step.resume === undefined ? {} : { session: "same" as const, verified: true };
  return { exit: 0, status: "completed", trouble: null, history: EVERY, ...resumed, ...expect };
}

/** Whether this step is a resume that should succeed, undisturbed by the case itself. */
export function isMeantToResume(step: CaseStep, lab: Lab): boolean {
  if (step.resume === undefined || step.interrupt !== undefined) return false;
  const expected = step.expectFor?.[lab.id]?.expect ?? step.expect ?? {};
  const [first = {}] = Array.isArray(expected) ? expected : [expected];
  const full = withDefaults(first, step);
  return full.exit === 0 || full.continues === true;
}

/** Compared by identity: stands for all messages of the case so far. */
const EVERY: number[] = [];

function against(expect: CaseExpect, facts: CheckFacts, lab: Lab, place: LabPlace): readonly string[] {
  return [
    ...ending(expect, facts),
    ...resetTime(expect, facts),
    ...identity(expect, facts),
    ...(expect.history === undefined ? [] : history(expect.history, facts)),
    ...(expect.continues === true ? continues(facts) : []),
    ...sent(expect, facts),
    ...printed(expect, facts),
    ...options(expect.options, facts, lab, place),
    ...toolSaid(expect, facts, place),
    ...conversations(expect, facts),
  ];
}

function ending(expect: CaseExpect, { ended, shown, fault }: CheckFacts): readonly string[] {
  const attempt = shown?.history.at(-1);
  const trouble = attempt?.outcome?.trouble;
  return [
    ...differs("exit", expect.exit, ended.code),
    ...differs("status", expect.status, shown?.status ?? null),
    ...differs("fault", expect.fault, fault),
    ...differs("connected by", expect.mode, attempt?.interactive === true ? "ui" : (attempt?.mode ?? null)),
    ...(expect.trouble === undefined ? [] : differs("trouble", expect.trouble, trouble?.kind ?? null)),
  ];
}

/** Covers clocks, the engines' rounding, and delays on a busy machine. */
const RESET_TOLERANCE_MS = 60_000;

/** A trouble names the time that the model announced, and no time if it announced none. */
function resetTime(expect: CaseExpect, { shown, turns }: CheckFacts): readonly string[] {
  if (expect.trouble === undefined || expect.trouble === null) return [];
  const announced = turns.findLast(({ resetsAtMs }) => resetsAtMs !== null)?.resetsAtMs ?? null;
  const found = shown?.history.at(-1)?.outcome?.trouble?.resetsAt ?? null;
  if (announced === null || expect.resetsAt === false) return differs("reset time", null, found);
  const wanted = new Date(announced).toISOString();
  const isNear = found !== null && Math.abs(Date.parse(found) - announced) <= RESET_TOLERANCE_MS;
  return isNear ? [] : differs("reset time", wanted, found);
}

function identity(expect: CaseExpect, { shown, sessionBefore }: CheckFacts): readonly string[] {
  const attempt = shown?.history.at(-1);
  const wrong: string[] = [];
  const now = shown?.session.value ?? null;
  if (expect.session === "same" && (now === null || now !== sessionBefore)) {
    wrong.push(`the session was ${sessionBefore ?? "none"} and is ${now ?? "none"}`);
  }
  if (expect.session === "none" && now !== null) wrong.push(`the run has a session: ${now}`);
  const isNamed = attempt?.reported.some(({ source }) => source === "stdout") ?? false;
  wrong.push(...differs("named in the output", expect.named, isNamed));
  if (expect.verified !== undefined) {
    const verified = ["engine_reported", "store_confirmed"].includes(attempt?.receipt?.verified ?? "");
    wrong.push(...differs("proved by the receipt", expect.verified, verified));
    if (expect.verified && attempt?.receipt?.asked !== sessionBefore)
      wrong.push("the receipt is of another session");
  }
  if (expect.restored !== undefined) {
    wrong.push(
      ...differs("restored from escrow", expect.restored, attempt?.receipt?.restoredFromEscrow ?? false),
    );
  }
  return wrong;
}

/** The model saw exactly these messages, byte for byte, in this order. */
function history(numbers: readonly number[], { turns, messages }: CheckFacts): readonly string[] {
  const wanted = numbers === EVERY ? messages : numbers.map((n) => messages[n - 1] ?? `(no message ${n})`);
  if (turns.length === 0) return ["nothing was sent to the model"];
  const wrong = turns.flatMap(({ n, users, context }) =>
    same(users, context.some(isSummary) ? wanted.slice(-users.length) : wanted)
      ? []
      : [`request ${n} held ${list(users)} instead of ${list(wanted)}`],
  );
  return wrong.slice(0, 2);
}

/**
 * After an interruption: what the engine had kept is carried. Where it had kept nothing, a refusal by name is as good.
 * A later message may be lost; a conversation of which nothing is left is not called the same.
 */
function continues(facts: CheckFacts): readonly string[] {
  const { turns, messages, persisted, ended, fault } = facts;
  const refused = ended.code === 3 && ["session_lost", "session_unknown"].includes(fault ?? "");
  if (refused && persisted.length === 0)
    return turns.length === 0 ? [] : ["it was refused, but the model was asked"];
  const first = turns[0];
  const wrong = [
    ...differs("exit", 0, ended.code),
    ...differs("status", "completed", facts.shown?.status ?? null),
    ...identity({ session: "same", verified: true }, facts),
  ];
  if (first === undefined) return [...wrong, "nothing was sent to the model"];
  const { users } = first;
  const expected = messages.filter((message) => count(users, message) > 0);
  if (!same(users, expected)) wrong.push(`request ${first.n} held ${list(users)}`);
  if (messages.length > 1 && expected.length < 2)
    wrong.push(`request ${first.n} held nothing that was said before`);
  for (const message of [...persisted, messages.at(-1) ?? ""]) {
    if (count(users, message) === 0) wrong.push(`the model was not sent ${quoted(message)}`);
  }
  return wrong;
}

function sent(expect: CaseExpect, { turns, messages }: CheckFacts): readonly string[] {
  const wrong: string[] = [];
  if (expect.sent === "nothing" && turns.length > 0)
    wrong.push(`${plural(turns.length, "request")} reached the model`);
  if (expect.sent === "message" && !turns.some(({ users }) => users.includes(messages.at(-1) ?? ""))) {
    wrong.push("the message did not reach the model");
  }
  if (expect.assistants !== undefined)
    wrong.push(...differs("answers in the history", expect.assistants, turns[0]?.assistants ?? null));
  return wrong;
}

/** The tool ran, and its result reached the model. */
function toolSaid(expect: CaseExpect, { turns }: CheckFacts, place: LabPlace): readonly string[] {
  if (expect.toolSays === undefined) return [];
  const wanted = filled(expect.toolSays, place);
  const said = turns.flatMap(({ toolOutputs }) => toolOutputs);
  if (said.some((text) => text.includes(wanted))) return [];
  return [`the tool returned ${list(said)}, without ${quoted(wanted)}`];
}

/** The engine keeps one conversation, unless the case started others. */
function conversations(expect: CaseExpect, { conversations: found, decoy }: CheckFacts): readonly string[] {
  const most = (expect.conversations ?? 1) + (decoy === null ? 0 : 1);
  return found === null || found <= most
    ? []
    : [`the engine keeps ${found} conversations instead of ${most}`];
}

function printed(expect: CaseExpect, { ended, pages }: CheckFacts): readonly string[] {
  const wrong: string[] = [];
  if (expect.answer !== undefined && !ended.stdout.includes(expect.answer))
    wrong.push(`stdout lacks ${quoted(expect.answer)}`);
  if (expect.stderr !== undefined && !ended.stderr.includes(expect.stderr))
    wrong.push(`stderr lacks ${quoted(expect.stderr)}`);
  if (expect.harmless === true) {
    for (const [name, text] of Object.entries({ "its output": ended.stdout + ended.stderr, ...pages })) {
      for (const sequence of SEQUENCES) {
        if (text.includes(sequence)) wrong.push(`${quoted(sequence)} stands in ${name}`);
      }
    }
    if (!ended.stdout.includes("EVIL")) wrong.push("what the model said is not shown at all");
  }
  return wrong;
}

function options(
  wanted: CaseExpect["options"],
  facts: CheckFacts,
  lab: Lab,
  place: LabPlace,
): readonly string[] {
  if (wanted === undefined) return [];
  const [turn] = facts.turns;
  if (turn === undefined) return ["nothing was sent to the model, so no option is proved"];
  const sight = sightOf(facts, turn);
  const wrong = lab.options.evidence.filter((one) => isSeen(one, sight, place) !== (wanted === true));
  const says = wanted === true ? "option not in force" : "seen although no option was given";
  return wrong.map(
    ({ what, in: where, has, lacks }) => `${says}: ${what} (${has ?? `no ${lacks}`} in ${where})`,
  );
}

type Looked = Pick<CheckFacts, "stdoutLog" | "turnLog" | "screen">;

export function sightOf({ stdoutLog, turnLog, screen }: Looked, turn: RequestRecord): LabSight {
  return { turn, stdout: stdoutLog, log: turnLog, screen };
}

export function isSeen(
  { in: where, has, lacks, screen }: Evidence,
  sight: LabSight,
  place: LabPlace,
): boolean {
  const { turn, stdout, log } = sight;
  if (where === "stdout" && sight.screen !== null)
    return screen !== undefined && sight.screen.includes(screen);
  const tools = `\n${turn.tools.join("\n")}\n`;
  const text = { model: turn.model, tools, system: turn.system, body: turn.body, stdout, log }[where];
  return (
    (has === undefined || text.includes(filled(has, place))) &&
    (lacks === undefined || !text.includes(filled(lacks, place)))
  );
}

function filled(text: string, place: LabPlace): string {
  return text.replaceAll(/\{(extra|more|project)\}/g, (_, key: "extra" | "more" | "project") => place[key]);
}

type Wanted = string | number | boolean | null | readonly (string | number)[] | undefined;

function differs(what: string, wanted: Wanted, found: string | number | boolean | null): readonly string[] {
  if (wanted === undefined) return [];
  const holds = Array.isArray(wanted) ? wanted.includes(found) : wanted === found;
  return holds
    ? []
    : [
        `${what}: ${String(found)} instead of ${Array.isArray(wanted) ? wanted.join(" or ") : String(wanted)}`,
      ];
}

function count(all: readonly string[], one: string): number {
  return all.filter((other) => alike(other, one)).length;
}

/** Compares the last message byte for byte; an earlier one may have got a line end when its turn was interrupted. */
function same(found: readonly string[], wanted: readonly string[]): boolean {
  const isLast = (n: number) => n === wanted.length - 1;
  return (
    found.length === wanted.length &&
    found.every((text, n) => (isLast(n) ? text === wanted[n] : alike(text, wanted[n] ?? "")))
  );
}

/** Claude Code 2.1.197 ends an interrupted message with a line break when it sends it again. */
function alike(left: string, right: string): boolean {
  return left === right || left === `${right}\n`;
}

function list(texts: readonly string[]): string {
  return `[${texts.map(quoted).join(", ")}]`;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
}
