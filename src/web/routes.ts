/**
 * The routes of the HTTP API: what each takes, and what it calls. Authentication, rights and the OpenAPI document come
 * from this table, so a new route cannot miss them.
 *
 * A route that reads is a command of the CLI with `--json`. No route takes a command line, and none takes a path but
 * the folder of a new run.
 */
import { z } from "zod";
import { ACCESS_LEVELS } from "../core/config-issues.ts";
import type { JsonObject } from "../lib/json.ts";
import { fork, planResume, planStart, resume, send, start } from "./acts.ts";
import type { Core } from "./core.ts";
import type { OnceBook } from "./once.ts";
import * as reading from "./reading.ts";
import type { BytesReply, Reply } from "./reply.ts";

/** A request that was let in. */
export interface WebCall {
  readonly core: Core;
  readonly book: OnceBook;
  /** The values of `:name` in the path. */
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: JsonObject;
  /** The client's `Idempotency-Key`, or a random one. */
  readonly key: string;
}

export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below `/api/v1`. */
  readonly path: string;
  /** raw: output as recorded, which may hold secrets. */
  readonly right: "read" | "raw" | "write";
  readonly summary: string;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodObject;
  run(call: WebCall): Promise<Reply | BytesReply>;
}

const text = z.string().min(1).max(1_000_000);
const word = z.string().min(1).max(200);
const whole = z.string().regex(/^\d{1,15}$/);
const offset = { from: whole.optional(), limit: whole.optional() };
const message = z.strictObject({ message: text });

const ok = async (body: Promise<JsonObject>): Promise<Reply> => ({ status: 200, body: await body });
const option = (name: string, value: string | undefined) =>
  value === undefined ? [] : [`--${name}=${value}`];

/** A command that only reads. `words`: arguments and options of the command line. */
const asks = (words: (call: WebCall) => readonly string[]): Route["run"] => {
  return (call) => ok(call.core.ask(words(call)));
};

const read = (path: string, summary: string, rest: Pick<Route, "run" | "query">): Route => ({
  ...{ method: "GET", path, right: "read", summary },
  ...rest,
});

const readRaw = (path: string, summary: string, rest: Pick<Route, "run" | "query">): Route => ({
  ...read(path, summary, rest),
  right: "raw",
});

const write = (path: string, summary: string, rest: Pick<Route, "run" | "body">): Route => ({
  ...{ method: "POST", path, right: "write", summary },
  ...rest,
});

const RUNS: readonly Route[] = [
  read("/runs", "List runs, last used first, in parts.", {
    query: z.strictObject({
      ...{ status: word.optional(), engine: word.optional(), tag: word.optional(), grep: word.optional() },
      ...{ after: word.optional(), limit: whole.optional() },
    }),
    run: ({ core, query }) => ok(reading.listRows(core, query)),
  }),
  read("/runs/:handle", "Show one run, its attempts and the receipt of each resume.", {
    run: ({ core, path }) => ok(reading.showRun(core, path["handle"] ?? "")),
  }),
  read("/runs/:handle/conversation", "Read the messages and actions of all attempts, in parts.", {
    query: z.strictObject({ from: word.optional(), limit: whole.optional() }),
    run: ({ core, path, query }) => ok(reading.readConversation(core, path["handle"] ?? "", query)),
  }),
  read("/runs/:handle/attempts/:n/events", "Read the events of one attempt, in parts.", {
    query: z.strictObject(offset),
    run: ({ core, path, query }) => ok(reading.readEvents(core, path, query)),
  }),
  readRaw("/runs/:handle/attempts/:n/output", "Read the recorded output of one attempt as bytes, in parts.", {
    query: z.strictObject(offset),
    run: ({ core, path, query }) => reading.readOutput(core, path, query),
  }),
  readRaw(
    "/runs/:handle/attempts/:n/timing",
    "Read when each part of the output arrived, and the terminal's sizes.",
    {
      run: ({ core, path }) => ok(reading.readTiming(core, path)),
    },
  ),
  read("/runs/:handle/attempts/:n/receipt", "Read the proof of a resume.", {
    run: ({ core, path }) => ok(reading.readReceipt(core, path)),
  }),
  read("/runs/:handle/diff", "Show what changed in the run's folder.", {
    query: z.strictObject({ attempt: whole.optional() }),
    run: asks(({ path, query }) => ["diff", ...option("attempt", query["attempt"]), path["handle"] ?? ""]),
  }),
  write("/runs", "Start an agent in the background.", {
    body: z.strictObject({
      ...{ engine: word, message: text, cwd: z.string().min(1).max(4_096) },
      ...{ isolate: z.enum(["worktree", "dir"]).optional(), access: z.enum(ACCESS_LEVELS).optional() },
      ...{ name: word.optional(), tags: z.array(word).max(50).optional() },
    }),
    run: ({ core, book, key, body }) => {
      const wish = body as unknown as Parameters<typeof planStart>[1];
      return book.once(
        { key, route: "start", body },
        () => planStart(core, wish),
        (planned) => start(core, wish, planned),
      );
    },
  }),
  write("/runs/:handle/resume", "Continue the run's conversation as its next attempt.", {
    body: z.strictObject({ message: text.optional(), attempt: z.int().min(0).max(999_999).optional() }),
    run: ({ core, book, key, path, body }) => {
      const handle = path["handle"] ?? "";
      const seen = body["attempt"] as number | undefined;
      return book.once(
        { key, route: `resume ${handle}`, body },
        () => planResume(core, handle, seen),
        (planned) => resume(core, handle, body["message"] as string | undefined, planned),
      );
    },
  }),
  write("/runs/:handle/fork", "Continue a copy of the conversation as a new run.", {
    body: z.strictObject({ message: text.optional() }),
    run: ({ core, book, key, path, body }) => {
      const handle = path["handle"] ?? "";
      return book.once(
        { key, route: `fork ${handle}`, body },
        () => planResume(core, handle, undefined),
        (planned) => fork(core, handle, body["message"] as string | undefined, planned),
      );
    },
  }),
  write("/runs/:handle/message", "Type a message into the live UI of a run.", {
    body: message,
    run: ({ core, key, path, body }) => send(core, path["handle"] ?? "", String(body["message"]), key),
  }),
  write("/runs/:handle/stop", "Stop a live run.", {
    body: z.strictObject({}),
    run: asks(({ path }) => ["stop", path["handle"] ?? ""]),
  }),
  write("/runs/:handle/rename", "Rename a run.", {
    body: z.strictObject({ name: word }),
    run: asks(({ path, body }) => ["rename", path["handle"] ?? "", "--", String(body["name"])]),
  }),
];

const OTHERS: readonly Route[] = [
  read("/inbox", "What waits for a person: decisions, waiting agents, ended runs, limits.", {
    run: ({ core }) => ok(reading.inbox(core)),
  }),
  read("/decisions", "List decisions.", {
    query: z.strictObject({ all: z.enum(["1"]).optional() }),
    run: asks(({ query }) => ["decisions", "list", ...(query["all"] === undefined ? [] : ["--all"])]),
  }),
  read("/decisions/:id", "Show one decision with its facts.", {
    run: asks(({ path }) => ["decisions", "show", path["id"] ?? ""]),
  }),
  write("/decisions/:id", "Answer a decision with one of its options.", {
    body: z.strictObject({ choice: z.int().min(1).max(99), message: text.optional() }),
    run: asks(({ path, body }) => [
      ...["decisions", "resolve", path["id"] ?? "", String(body["choice"])],
      ...(typeof body["message"] === "string" ? [`--message=${body["message"]}`] : []),
    ]),
  }),
  read("/agents", "List supervised agents.", { run: asks(() => ["agent", "list"]) }),
  read("/pipelines", "List pipelines.", { run: asks(() => ["pipeline", "list"]) }),
  read("/status", "Show all agents and pipelines.", { run: asks(() => ["status"]) }),
  read("/batches", "List issues by repository, with the run and state of each.", {
    run: ({ core }) => ok(reading.batches(core)),
  }),
  read("/reviews", "List the runs of reviews.", { run: ({ core }) => ok(reading.reviews(core)) }),
  read("/usage", "Show tokens, cost and limits.", {
    query: z.strictObject({
      by: z.enum(["day", "engine", "model", "run", "folder"]).optional(),
      since: z
        .string()
        .regex(/^\w{1,20}$/)
        .optional(),
    }),
    run: asks(({ query }) => ["usage", ...option("by", query["by"]), ...option("since", query["since"])]),
  }),
  read("/search", "Search everything said and done in all runs.", {
    query: z.strictObject({
      ...{ q: z.string().min(1).max(1_000), engine: word.optional() },
      ...{
        since: z
          .string()
          .regex(/^[\w-]{1,20}$/)
          .optional(),
        limit: whole.optional(),
      },
    }),
    run: asks(({ query }) => [
      ...["search", ...option("engine", query["engine"]), ...option("since", query["since"])],
      ...[...option("limit", query["limit"]), "--", query["q"] ?? ""],
    ]),
  }),
  read("/doctor", "Check engines, state directory and index.", { run: asks(() => ["doctor"]) }),
  read("/engines", "List the engines for a new run.", { run: ({ core }) => ok(reading.engines(core)) }),
  read("/scheduled", "List scheduled resumes.", { run: asks(() => ["scheduled", "list"]) }),
];

export const ROUTES: readonly Route[] = [...RUNS, ...OTHERS];
