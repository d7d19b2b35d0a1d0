/** The commands behind the keys of the home screen: each is a command line of Reprise. Pure. */
import type { Key } from "../terminal/terminal.ts";
import type { HomeRow } from "./home-row.ts";

/** A command line without `reprise`. */
export interface HomeCommand {
  readonly args: readonly string[];
  /** How the screen comes back: at once, or after a key so that the output can be read. On a failure always after a key. */
  readonly back: "return" | "wait";
  /** Asks this question first. */
  readonly asks?: string;
}

/** Texts to ask for, one after the other. */
export interface Form {
  readonly kind: "resume" | "send" | "start" | "decide";
  readonly id: string;
  readonly title: string;
  /** Lines above the fields: what can be answered. */
  readonly choices?: readonly string[];
  readonly fields: readonly FormField[];
}

interface FormField {
  readonly label: string;
  /** The text that the editor begins with. */
  readonly first: string;
  /** What an empty text means. Absent: nothing. */
  readonly usual?: string;
}

/** What a key does to a row. Null: nothing. */
export function commandFor(key: Key, row: HomeRow): HomeCommand | null {
  const { id, kind, live, hasUi } = row;
  if (key === "enter") {
    if (kind === "decision") return { args: ["decisions", "show", id], back: "wait" };
    if (kind === "pipeline") return { args: ["pipeline", "show", id], back: "wait" };
    if (kind === "batch") return { args: ["issues", "status"], back: "wait" };
    if (live && hasUi) return { args: ["attach", id], back: "return" };
    return live ? { args: ["logs", id, "--follow"], back: "return" } : { args: ["logs", id], back: "wait" };
  }
  const isRun = kind === "run" || kind === "agent";
  if (key === "l") return isRun ? { args: ["logs", id], back: "wait" } : null;
  if (key !== "s" || !live) return null;
  if (kind === "agent") return stopping(["agent", "stop", id], `Stop agent ${id} and its supervision?`);
  if (kind === "run") return stopping(["stop", id], `Stop run ${id}?`);
  if (kind === "pipeline") return stopping(["pipeline", "cancel", id], `Cancel pipeline ${id}?`);
  return null;
}

const stopping = (args: readonly string[], asks: string): HomeCommand => ({ args, back: "wait", asks });

/** The texts that a key asks for. Null: the key asks for none. */
export function formFor(
  key: Key,
  row: HomeRow | undefined,
  { cwd, rows }: { readonly cwd: string; readonly rows: readonly HomeRow[] },
): Form | null {
  if (key === "n") {
    const engine = rows.find(({ engine: name }) => name !== "")?.engine ?? "";
    const fields = [
      { label: engine === "" ? "Engine" : `Engine (empty: ${engine})`, first: "", usual: engine },
      { label: "Folder", first: cwd },
      { label: "Prompt", first: "" },
    ];
    return { kind: "start", id: "", title: "New run in the background", fields };
  }
  if (row === undefined) return null;
  const one = (label: string) => [{ label, first: "" }];
  if (key === "d" && row.decision !== null)
    return {
      ...{ kind: "decide", id: row.decision, title: `Answer ${row.decision}` },
      choices: rows.find(({ kind, id }) => kind === "decision" && id === row.decision)?.choices ?? [],
      fields: one("Number, and a message if you like, for example: 1 use the other key"),
    };
  if (key !== "r") return null;
  if (row.kind === "agent")
    return { kind: "send", id: row.id, title: `Send to agent ${row.id}`, fields: one("Message") };
  if (row.kind !== "run" || row.live) return null;
  const label = "Message (empty: open the engine's UI, if it has one)";
  return { kind: "resume", id: row.id, title: `Resume ${row.id} in the background`, fields: one(label) };
}

const textOf = ({ first, usual = "" }: FormField) => (first.trim() === "" ? usual : first.trim());

/**
 * Why a field is not accepted yet. The same text again is accepted: a project in another folder may define its engine.
 * Null: accepted.
 */
export function complaintAbout(
  { kind, fields }: Form,
  {
    at,
    refused,
    engines,
  }: { readonly at: number; readonly refused: string; readonly engines: readonly string[] },
): { readonly text: string; readonly refused: string } | null {
  const field = fields[at];
  if (kind !== "start" || field === undefined) return null;
  const given = textOf(field);
  if (given === "")
    return { text: at === 0 ? `Type an engine: ${engines.join(", ")}` : "Type a text.", refused: "" };
  if (at !== 0 || engines.includes(given) || given === refused) return null;
  return {
    text: `${JSON.stringify(given)} is not an engine here; Enter takes it anyway. Engines: ${engines.join(", ")}`,
    refused: given,
  };
}

/** The form with the texts that were typed before, if they belong to it. */
export function withTyped(form: Form, typed: Form | null): Form {
  return typed !== null && typed.kind === form.kind && typed.id === form.id
    ? {
        ...form,
        fields: form.fields.map((field, at) => ({ ...field, first: typed.fields[at]?.first ?? "" })),
      }
    : form;
}

/** Null: something is missing. */
export function filledForm({ kind, id, fields }: Form): HomeCommand | null {
  const [first = "", second = "", third = ""] = fields.map(textOf);
  switch (kind) {
    case "resume":
      if (first === "") return { args: ["resume", id], back: "wait" };
      return { args: ["resume", id, "--detach", "--", first], back: "return" };
    case "send":
      return first === "" ? null : { args: ["agent", "send", "--", id, first], back: "return" };
    case "start":
      if (first === "" || second === "" || third === "") return null;
      // A prompt that begins with a dash is not an option.
      return {
        args: ["start", "--detach", "--cwd", second, first, third.replace(/^-/, " -")],
        back: "return",
      };
    case "decide": {
      const answer = /^(\d{1,3})\s*([^]*)$/.exec(first);
      if (answer === null) return null;
      const [, n = "", message = ""] = answer;
      return {
        args: ["decisions", "resolve", id, n, ...(message === "" ? [] : ["-m", message])],
        back: "wait",
      };
    }
  }
}
