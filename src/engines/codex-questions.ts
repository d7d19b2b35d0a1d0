/** Turns the requests of `codex app-server` into questions for people, and answers into its format. */
import type { QuestionAnswer, FileChange, Question } from "../core/events.ts";
import { arrayIn, fieldIn, type JsonObject, objectIn, stringIn } from "../lib/json.ts";
import { type Change, changeIn, changesIn } from "./codex-server-output.ts";

/** The server's ids: whole numbers from 0, or texts. */
export type WireId = string | number;

export interface OpenQuestion {
  /** The id of the first request. */
  readonly id: string;
  /** Requests that share the answer. */
  readonly waiting: Set<WireId>;
  readonly question: Question;
  /** Equal for another request that asks the same about the same item. Null: no item is named. */
  readonly item: string | null;
  /** A request of older servers, which use another format for answers. */
  readonly legacy: boolean;
  state: "open" | "answered" | "settled";
  decision: QuestionAnswer | null;
}

export function isWireId(id: unknown): id is WireId {
  return typeof id === "string" || Number.isSafeInteger(id);
}

interface Known {
  readonly cwd: string;
  /** The running items: a request to change files names only its item. */
  readonly items: ReadonlyMap<string, JsonObject>;
}

/** Null: no person can answer the request. */
export function questionIn(
  wire: WireId,
  method: string,
  params: JsonObject,
  known: Known,
): OpenQuestion | null {
  const about = aboutOf(method, params, known);
  if (about === null) return null;
  const id = JSON.stringify(wire);
  const question: Question = {
    id,
    about: about.about,
    what: about.what,
    cwd: stringIn(params, "cwd") ?? null,
    reason: stringIn(params, "reason") ?? null,
    ...(about.changes === undefined ? {} : { changes: about.changes }),
    // A request with too little content to compare is unique.
    key: JSON.stringify([about.about, ...(about.key ?? [method, params])]),
  };
  const legacy = !method.startsWith("item/");
  const item = itemOf(method, params, question);
  return { id, waiting: new Set([wire]), question, item, legacy, state: "open", decision: null };
}

/**
 * A command may ask for each of its parts (`approvalId`), and again with another reason: those are different questions.
 */
function itemOf(method: string, params: JsonObject, { key, reason }: Question): string | null {
  const item = stringIn(params, "itemId") ?? stringIn(params, "callId");
  if (item === undefined) return null;
  const of = ["threadId", "conversationId", "turnId", "approvalId"].map((name) => stringIn(params, name));
  return JSON.stringify([method, item, of, key, reason]);
}

interface About extends Pick<Question, "about" | "what" | "changes"> {
  readonly key: readonly unknown[] | null;
}

function aboutOf(method: string, params: JsonObject, { cwd, items }: Known): About | null {
  const it = items.get(stringIn(params, "itemId") ?? "");
  switch (method) {
    case "item/commandExecution/requestApproval":
      return commandOf(params, stringIn(params, "command") ?? stringIn(it, "command"));
    case "execCommandApproval": {
      const words = arrayIn(params, "command").filter((word) => typeof word === "string");
      return commandOf(params, words.length === 0 ? undefined : words.join(" "), words);
    }
    case "item/fileChange/requestApproval":
      return filesOf(params, changesIn(it), cwd);
    case "applyPatchApproval":
      return filesOf(params, legacyChanges(objectIn(params, "fileChanges") ?? {}), cwd);
    default:
      return null;
  }
}

function commandOf(params: JsonObject, command: string | undefined, words?: readonly string[]): About {
  const kind = stringIn(params, "kind") ?? "command";
  const network = objectIn(params, "networkApprovalContext") ?? null;
  const host = stringIn(network, "host");
  const more = fieldIn(params, "additionalPermissions") ?? null;
  const what = [
    kind === "command" ? (command ?? "a command that Codex did not name") : `input for ${command ?? "?"}`,
    ...(host === undefined ? [] : [`network: ${stringIn(network, "protocol") ?? "any"} ${host}`]),
    ...(more === null ? [] : [`more rights: ${JSON.stringify(more)}`]),
  ];
  const told = kind === "command" && command !== undefined;
  // The same text on another machine is another command.
  const where = [stringIn(params, "cwd") ?? null, stringIn(params, "environmentId") ?? null];
  const key = [words ?? command, ...where, network, more];
  return { about: "command", what: what.join("\n"), key: told ? key : null };
}

function filesOf(params: JsonObject, changes: readonly Change[], cwd: string): About {
  const root = stringIn(params, "grantRoot") ?? null;
  const what = [
    ...(changes.length === 0 ? ["changes to files that Codex did not name"] : changes.map(changeIn(cwd))),
    ...(root === null ? [] : [`and anything under ${root} for the rest of the session`]),
  ];
  const key = [changes.map(({ does, path, movesTo, diff }) => [does, path, movesTo, diff]), root];
  if (changes.length === 0) return { about: "files", what: what.join("\n"), key: null };
  return { about: "files", what: what.join("\n"), key, changes: changes.map(shownIn(cwd)) };
}

/**
 * For a new or deleted file, Codex 0.166 sends the bare text; for any other a unified diff, followed by the new name of
 * a moved file.
 */
function shownIn(cwd: string): (change: Change) => FileChange {
  const named = changeIn(cwd);
  return (change) => {
    const { does, diff, movesTo } = change;
    const moved = `\n\nMoved to: ${movesTo}`;
    const mark = does === "add" ? "+" : does === "delete" ? "-" : "";
    const text = diff.endsWith(moved) ? diff.slice(0, -moved.length) : diff;
    const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
    return { what: named(change), diff: lines.map((line) => `${mark}${line}`).join("\n") };
  };
}

function legacyChanges(files: JsonObject): readonly Change[] {
  return Object.entries(files).map(([path, change]) => ({
    does: stringIn(change, "type") ?? "change",
    path,
    movesTo: stringIn(change, "move_path") ?? null,
    diff: stringIn(change, "unified_diff") ?? stringIn(change, "content") ?? "",
  }));
}

const DECISIONS = {
  accept: "accept",
  accept_for_session: "acceptForSession",
  decline: "decline",
  cancel: "cancel",
} as const;

const LEGACY = {
  accept: "approved",
  accept_for_session: "approved_for_session",
  decline: { denied: { rejection: "declined" } },
  cancel: "abort",
} as const;

/** The line that answers one request. */
export function replyTo(wire: WireId, { legacy }: OpenQuestion, decision: QuestionAnswer): string {
  return JSON.stringify({
    id: wire,
    result: { decision: legacy ? LEGACY[decision] : DECISIONS[decision] },
  });
}
