/**
 * Cases are data in JSON files. This file defines their format and makes one instance of each case per engine that it
 * names. It knows no engine.
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { unknownDirectives } from "./model-server/directives.ts";

export const GROUPS = {
  resume: "start, resume ×3, options",
  interruption: "interruption",
  trouble: "trouble",
  stale: "stale or busy session",
  hostile: "hostile text",
  hang: "hang",
  terminal: "PTY and UI",
  escrow: "escrow",
  certify: "doctor --certify",
  review: "review",
  observe: "UIs, watched",
  supervisor: "supervised agents",
  issues: "batches of issues",
  text: "text output",
  parallel: "many at once",
} as const;

export type Group = keyof typeof GROUPS;

/** What must hold after a step. Absent fields are not checked, except for the defaults in `checks.ts`. */
const Expect = z.strictObject({
  /** Reprise's exit code, or a list of acceptable ones. */
  exit: z.union([z.number(), z.array(z.number())]).optional(),
  status: z.union([z.string(), z.array(z.string())]).optional(),
  /** The attempt's trouble kind. Null: no trouble. */
  trouble: z.union([z.string(), z.array(z.string()), z.null()]).optional(),
  /** false: the engine does not pass on the announced time. Otherwise the trouble must name the model's time. */
  resetsAt: z.literal(false).optional(),
  /** The code of the fault that refused the command. */
  fault: z.union([z.string(), z.array(z.string())]).optional(),
  /** nothing: no message of this step reached the model. */
  sent: z.enum(["nothing", "message"]).optional(),
  /** Messages, by number, that the model saw in this step, in this order, each once. */
  history: z.array(z.number()).optional(),
  /** After an interruption: the resume continues with the messages that the engine kept, or is refused if it kept none. */
  continues: z.boolean().optional(),
  assistants: z.number().optional(),
  /** same: the run's session id did not change. none: the run has no session id. */
  session: z.enum(["same", "none", "any"]).optional(),
  /** The engine named its session in its output. false: only its files show it. */
  named: z.boolean().optional(),
  /** The receipt proves the resume. */
  verified: z.boolean().optional(),
  restored: z.boolean().optional(),
  /** The most conversations that the engine's store may hold; 1 unless the case starts another. */
  conversations: z.number().optional(),
  /**
   * true: the options of the start are in force, as the request to the model or the engine's log shows. none: no option
   * was given, so all of that evidence must be missing; evidence that is always there proves nothing.
   */
  options: z.union([z.literal(true), z.literal("none")]).optional(),
  /** The result that a tool in this step returned to the model. */
  toolSays: z.string().optional(),
  /** How the agent was connected. */
  mode: z.enum(["pipe", "pty", "ui"]).optional(),
  answer: z.string().optional(),
  stderr: z.string().optional(),
  /** Reprise removes control sequences from the words of the model or a tool. */
  harmless: z.literal(true).optional(),
});

const Talk = z.strictObject({
  message: z.string().nullable(),
  /**
   * Runs Reprise in a terminal instead of a pipe. view: the message is an argument. ui: the engine's UI opens, the case
   * types the message, and leaves with Ctrl-C once the answer is on the screen.
   */
  terminal: z.enum(["view", "ui"]).optional(),
  /** How Reprise receives the message. */
  via: z.enum(["argument", "stdin", "file"]).optional(),
  /** Native options; `{options}` and `{tools}` stand for the engine's lists of them. */
  native: z.array(z.string()).optional(),
  flags: z.array(z.string()).optional(),
  /** The working directory of Reprise: the project, or another folder. */
  from: z.enum(["project", "extra"]).optional(),
  /**
   * The engine gets its native command line for readable text, message included, and Reprise passes it on unchanged.
   */
  text: z.literal(true).optional(),
  /** Reprise runs on a terminal and prints for a person; the case also checks the output of `show` and `logs` there. */
  human: z.literal(true).optional(),
  /** This step uses another HOME. */
  home: z.enum(["other"]).optional(),
  /** closed: points the engine at a port without a listener. */
  model: z.enum(["closed"]).optional(),
});

/**
 * Moments. session: the engine named its session. request: the engine just sent its request to the model. before-token,
 * mid-stream, mid-tool: the same, after the engine has had time to store the message. copied: the answer is under way,
 * and Reprise has copied the conversation in this attempt. after: the answer was sent.
 */
const Interrupt = z.strictObject({
  /** terminal: SIGHUP closes its pane, SIGKILL kills the terminal itself. */
  who: z.enum(["reprise", "agent", "tree", "terminal"]),
  signal: z.enum(["SIGKILL", "SIGINT", "SIGTERM", "SIGHUP"]),
  at: z.enum(["spawn", "session", "request", "before-token", "mid-stream", "mid-tool", "copied", "after"]),
});

const Expected = z.union([Expect, z.array(Expect)]);

const Step = z.strictObject({
  start: Talk.optional(),
  resume: Talk.optional(),
  /** An act on the engine's files or processes, from an `acts.ts`: its name and arguments. */
  do: z.string().optional(),
  interrupt: Interrupt.optional(),
  /** A list: any of these. */
  expect: Expected.optional(),
  /** Replaces `expect` for some engines, with the reason. */
  expectFor: z.record(z.string(), z.strictObject({ why: z.string(), expect: Expected })).optional(),
  /** With `--record`, the attempt becomes this fixture. */
  record: z.string().optional(),
  deadlineMs: z.number().optional(),
});

const Case = z.strictObject({
  name: z.string(),
  group: z.enum(Object.keys(GROUPS) as [Group, ...Group[]]),
  /** Engines (labs) that run it. Absent: all. */
  engines: z.array(z.string()).optional(),
  /** The guarantee that it proves, in a user's words. Present: `reprise doctor --certify` includes it. */
  certify: z.string().optional(),
  /** Engines to which it does not apply, and why. */
  skip: z.record(z.string(), z.string()).optional(),
  steps: z.array(Step).min(1),
});

/** A case as written: each value of `each` in turn replaces `{key}` in all texts. */
const Varied = z.looseObject({ each: z.record(z.string(), z.array(z.string())).optional() });

export type CaseExpect = z.infer<typeof Expect>;
export type CaseStep = z.infer<typeof Step>;
export type CaseTalk = z.infer<typeof Talk>;
export type CaseInterrupt = z.infer<typeof Interrupt>;

export interface CaseInstance {
  /** `kill-reprise-mid-stream@codex`. */
  readonly id: string;
  readonly name: string;
  readonly group: Group;
  readonly lab: string;
  readonly certify: string | null;
  readonly steps: readonly CaseStep[];
  /** Why it does not apply to this engine. */
  readonly skipped: string | null;
  /** Whether it is part of the short selection. */
  readonly short: boolean;
}

/** The cases of `doctor --certify`: beside the program in the source and in `dist/`. */
export const CERTIFY_CASES = new URL("./cases/", import.meta.url);

export function loadCases(
  labs: readonly string[],
  folders: readonly URL[],
  short: ReadonlySet<string> = new Set(),
): readonly CaseInstance[] {
  const instances = folders.flatMap(filesIn).flatMap((url) => {
    const file = fileURLToPath(url);
    return writtenIn(url, file)
      .flatMap(expand)
      .flatMap((one) => {
        const parsed = Case.safeParse(one);
        if (parsed.success) {
          assertDirectives(parsed.data, file);
          return instancesOf(parsed.data, labs, short);
        }
        throw new Error(`${file}: ${JSON.stringify(one["name"])}: ${z.prettifyError(parsed.error)}`);
      });
  });
  const seen = new Set<string>();
  for (const { id } of instances) {
    if (seen.has(id)) throw new Error(`two cases are called ${id}`);
    seen.add(id);
  }
  return instances;
}

function filesIn(folder: URL): readonly URL[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return names.sort().map((name) => new URL(name, folder));
}

function writtenIn(url: URL, file: string): readonly z.infer<typeof Varied>[] {
  try {
    return Varied.array().parse(JSON.parse(readFileSync(url, "utf8")));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw new Error(`${file}: ${why}`, { cause: error });
  }
}

/** The model would ignore an unknown directive and answer normally. */
function assertDirectives({ name, steps }: z.infer<typeof Case>, file: string): void {
  const said = steps.flatMap(({ start, resume }) => [start?.message ?? "", resume?.message ?? ""]);
  const [unknown] = said.flatMap(unknownDirectives);
  if (unknown !== undefined) throw new Error(`${file}: "${name}": the model knows no directive @@${unknown}`);
}

/** One case per combination of the values of `each`. */
function expand({ each, ...rest }: z.infer<typeof Varied>): readonly Record<string, unknown>[] {
  const combinations = Object.entries(each ?? {}).reduce<readonly Record<string, string>[]>(
    (sofar, [key, values]) => sofar.flatMap((some) => values.map((value) => ({ ...some, [key]: value }))),
    [{}],
  );
  return combinations.map((values) => {
    const text = JSON.stringify(rest).replaceAll(/\{(\w+)\}/g, (whole, key: string) => {
      const value = values[key];
      return value === undefined ? whole : JSON.stringify(value).slice(1, -1);
    });
    return JSON.parse(text) as Record<string, unknown>;
  });
}

function instancesOf(
  one: z.infer<typeof Case>,
  labs: readonly string[],
  short: ReadonlySet<string>,
): readonly CaseInstance[] {
  for (const named of [...(one.engines ?? []), ...Object.keys(one.skip ?? {})]) {
    if (!labs.includes(named)) throw new Error(`case ${one.name} names an unknown engine: ${named}`);
  }
  return labs
    .filter((lab) => one.engines?.includes(lab) ?? true)
    .map((lab) => ({
      id: `${one.name}@${lab}`,
      name: one.name,
      group: one.group,
      lab,
      certify: one.certify ?? null,
      steps: one.steps,
      skipped: one.skip?.[lab] ?? null,
      short: short.has(one.name) || short.has(`${one.name}@${lab}`),
    }));
}
