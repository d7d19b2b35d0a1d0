/** `reprise adopt [engine] [session-id]` */
import { resolveDirectory } from "../state/places.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { fitTable } from "../lib/table.ts";
import { adoptSession, type Deps } from "../run/run.ts";
import { type Conversation, findConversations, offerFor } from "../run/inspect.ts";
import type { Context, Terminal } from "./context.ts";
import {
  count,
  defineCommand,
  directory,
  flag,
  JSON_FLAG,
  type OptionsOf,
  personName,
  withValue,
} from "./define.ts";
import { age, printTable, shortPath, widthLimit } from "./words.ts";

const DEFAULT_LIMIT = 50;

const OPTIONS = {
  cwd: directory("conversations of this directory (default: current directory)"),
  all: flag("conversations of every directory"),
  name: withValue("<name>", "human-readable name of the new run", personName),
  limit: withValue("<n>", `maximum number to list (default ${DEFAULT_LIMIT})`, count(1, 10_000)),
  json: JSON_FLAG,
};
type AdoptOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "adopt",
  summary: "Find conversations started outside Reprise, and make one resumable by handle.",
  args: {
    engine: { help: "engine of the conversation: codex, claude, gemini, opencode, …", values: "engines" },
    "session-id": { help: "session id of the engine, or its first 8 or more characters" },
  },
  options: OPTIONS,
  examples: [
    "reprise adopt                      (conversations of this directory)",
    "reprise adopt codex --all",
    "reprise adopt claude 8f3c1a2e --name refactoring",
  ],
  run: async ({ args: { engine = null, "session-id": session }, options, reply }, context) => {
    if (options.cwd !== undefined && options.all === true)
      throw new Fault("usage", "Give --cwd or --all, not both.");
    const cwd = options.all === true ? null : resolveDirectory(options.cwd ?? ".");
    const deps = await context.open({ cwd });
    if (engine === null || session === undefined) return list(context, deps, options, { engine, cwd });
    const { run: adopted, isNew } = await adoptSession(deps, {
      engine,
      session,
      cwd: options.cwd === undefined ? null : cwd,
      name: options.name ?? null,
    });
    const why = options.json === true ? null : (await offerFor(deps, adopted)).why;
    reply({ isNew, ...adopted }, () => context.print(adoptedText(adopted, { isNew, session, why })));
    return 0;
  },
});

function adoptedText(
  adopted: RunRecord,
  { isNew, session, why }: { isNew: boolean; session: string; why: string | null },
): string {
  const what = isNew ? "Adopted as run" : "This conversation belongs to run";
  const id = (adopted.sessions.findLast(({ value: one }) => one.startsWith(session)) ?? adopted.session)
    .value;
  // The run may have continued in another conversation.
  const which = id === null || id === adopted.session.value ? "" : ` --session ${id}`;
  const next =
    why === null
      ? `Continue it: reprise resume ${adopted.handle}${which} "…"`
      : `It cannot be resumed: ${why}.`;
  return `${what} ${adopted.handle}. ${next}`;
}

async function list(
  context: Context,
  deps: Deps,
  options: AdoptOptions,
  filter: { readonly engine: string | null; readonly cwd: string | null },
): Promise<number> {
  if (options.name !== undefined)
    throw new Fault(
      "usage",
      "--name goes with an engine and a session id: reprise adopt codex 0199a3f2 --name …",
    );
  const found = (await findConversations(deps, filter)).slice(0, options.limit ?? DEFAULT_LIMIT);
  if (options.json === true) {
    context.printJson({ ok: true, conversations: found.map(toJson) });
    return 0;
  }
  if (found.length === 0) {
    const where = filter.cwd === null ? "" : " in this directory; --all looks everywhere";
    context.print(`No conversations found${where}.`);
    return 0;
  }
  const now = { nowMs: deps.clock.now(), home: deps.env["HOME"] };
  printTable(context, conversationTable(found, context.terminal, now));
  const open = found.filter(({ handle }) => handle === null);
  const [first] = open;
  if (first !== undefined) {
    context.print(
      `${plural(open.length, "conversation")} without a handle. Adopt one: reprise adopt ${first.engine} ${first.id}`,
    );
  }
  return 0;
}

/** Header first. Engine and id are what users type to adopt a conversation. */
export function conversationTable(
  found: readonly Conversation[],
  terminal: Pick<Terminal, "stdout" | "columns">,
  { nowMs, home }: { readonly nowMs: number; readonly home: string | undefined },
): string[] {
  const rows = found.map((one) => [
    one.handle ?? "-",
    one.engine,
    harmlessLine(one.id),
    one.updatedAtMs === null ? "?" : age(new Date(one.updatedAtMs).toISOString(), nowMs),
    harmlessLine(one.title ?? "", 60),
    shortPath(one.cwd ?? "?", home),
  ]);
  const columns = [
    { head: "HANDLE", as: "whole" },
    { head: "ENGINE", as: "whole" },
    { head: "ID", as: "whole" },
    { head: "UPDATED" },
    { head: "TITLE", least: 12 },
    { head: "WHERE", least: 12, cut: (path: string, width: number) => shortPath(path, undefined, width) },
  ] as const;
  return fitTable(columns, rows, widthLimit(terminal));
}

function toJson(one: Conversation) {
  const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const { engine, id, cwd, path, title, handle } = one;
  return {
    engine,
    id,
    cwd,
    path,
    title,
    handle,
    createdAt: iso(one.createdAtMs),
    updatedAt: iso(one.updatedAtMs),
  };
}
