/**
 * `reprise doctor --certify`: runs the certify program on this machine's engines and shows its report. The engines get
 * only PATH from the user's environment: no home, no keys, no config, no network.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { CertifyLine, Check } from "../core/certificate.ts";
import { Fault } from "../core/faults.ts";
import type { Engine } from "../engines/engine.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { LineSplitter } from "../lib/lines.ts";
import { plural } from "../lib/plural.ts";
import { wrapTable } from "../lib/table.ts";
import type { Deps } from "../run/run.ts";
import { allEngines, findEngine, setUpEngine } from "../run/engine-setup.ts";
import { type Context, paint, type Terminal } from "./context.ts";

/** Built-in engines without a lab, and why. */
const WITHOUT_LAB: Readonly<Record<string, string>> = {
  iflow:
    "its package is no longer published, so there is no lab for it; `reprise doctor` checks what can be checked",
  demo: "it comes with Reprise and cannot differ from it",
};
const OWN_ENGINE = "it is an engine of your config, and Reprise has no scripted model for it";
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
/** How long output may take to arrive after the end. */
const PIPE_MS = 1_000;
const MAX_LINE_BYTES = 1024 * 1024;

interface Certified {
  readonly engine: string;
  /** Null: not installed, or without a lab. */
  readonly program: string | null;
  version: string | null;
  /** Why nothing was checked. */
  readonly reason: string | null;
  checks: Check[];
}

export async function certify(
  context: Context,
  deps: Deps,
  named: string | undefined,
  json: boolean,
): Promise<number> {
  const engines = named === undefined ? everyEngine(deps) : [oneEngine(deps, named)];
  const state = { network: "none was needed", stopped: 0 };
  const order = new Map<string, readonly string[]>();
  const onLine = (line: CertifyLine) => {
    if (line.type === "fatal") throw new Fault(line.code, `Nothing could be checked: ${line.message}`);
    if (line.type === "begin") {
      state.network = line.network;
      if (!json) context.log.info("testing with a separate home and a scripted model");
      return;
    }
    const one = engines.find(({ engine }) => engine === line.engine);
    if (one === undefined) return;
    if (line.type === "engine") {
      one.version = line.version;
      order.set(line.engine, line.checks);
      const title = `${line.engine} ${line.version ?? "of unknown version"}`;
      if (!json) context.log.info(`${title}: ${plural(line.checks.length, "check")}`);
    } else {
      const { type: _type, ...check } = line;
      one.checks.push(check);
      if (!json) context.log.info(progressText(check));
    }
  };
  const targets = engines.flatMap(({ engine, program }) =>
    program === null ? [] : [`${engine}=${program}`],
  );
  if (targets.length > 0) state.stopped = await examine(context, targets, onLine);
  if (state.stopped !== 0) return state.stopped;
  for (const one of engines) {
    const wanted = order.get(one.engine) ?? [];
    one.checks = one.checks.toSorted((a, b) => wanted.indexOf(a.check) - wanted.indexOf(b.check));
  }
  const broke = engines.flatMap(({ checks }) => checks).some(({ result }) => result === "broke");
  if (json) context.printJson({ ok: !broke, version: context.version, network: state.network, engines });
  else print(context, engines, state.network);
  return broke ? 1 : 0;
}

/** Throws the same faults as a start. */
function oneEngine(deps: Deps, id: string): Certified {
  const engine = findEngine(deps, id);
  const reason = withoutLab(engine);
  if (reason !== null) {
    throw new Fault("engine_cannot", `${engine.title} cannot be certified: ${reason}.`, {
      facts: { engine: id },
    });
  }
  return {
    engine: id,
    program: setUpEngine(deps, engine, []).program[0],
    version: null,
    reason: null,
    checks: [],
  };
}

function everyEngine(deps: Deps): readonly Certified[] {
  return allEngines(deps).map((engine) => {
    const nothing = { engine: engine.id, program: null, version: null, checks: [] };
    const reason = withoutLab(engine);
    if (reason !== null) return { ...nothing, reason };
    try {
      return oneEngine(deps, engine.id);
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "engine_missing") throw error;
      return { ...nothing, reason: "not installed" };
    }
  });
}

function withoutLab({ id }: Engine): string | null {
  if (LABS.has(id)) return null;
  return WITHOUT_LAB[id] ?? OWN_ENGINE;
}

const LABS: ReadonlySet<string> = new Set(["codex", "claude", "gemini", "opencode"]);

/**
 * Runs the certify program until it ends. A signal closes its stdin, and then it ends everything it started and removes
 * its folder. Returns the exit code for the signal, otherwise 0.
 */
async function examine(
  context: Context,
  targets: readonly string[],
  onLine: (line: CertifyLine) => void,
): Promise<number> {
  const program = fileURLToPath(new URL("certify.js", import.meta.url));
  const child = spawn(process.execPath, [program, ...targets], {
    cwd: "/",
    env: cleanEnvironment(context),
    stdio: ["pipe", "pipe", "inherit"],
  });
  let stopped = 0;
  const listeners = Object.entries(SIGNALS).map(([name, code]) => {
    const listener = () => {
      stopped ||= code;
      child.stdin.end();
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  const splitter = new LineSplitter(MAX_LINE_BYTES);
  let failure: unknown;
  const read = (lines: Iterable<string>) => {
    try {
      for (const line of lines) onLine(JSON.parse(line) as CertifyLine);
    } catch (error) {
      failure ??= error;
      child.stdin.end();
    }
  };
  child.stdin.on("error", () => {});
  child.stdout.on("data", (chunk: Buffer) => read(splitter.push(chunk)));
  const code = await new Promise<number | null>((ended, failed) => {
    child.once("error", failed);
    child.once("close", ended);
    // A process that inherited the pipe may keep it open.
    child.once("exit", (status) => setTimeout(() => ended(status), PIPE_MS).unref());
  });
  for (const off of listeners) off();
  child.stdout.destroy();
  if (failure !== undefined) throw failure;
  if (code !== 0 && stopped === 0) throw new Error(`the certify program ended with ${code ?? "a signal"}`);
  return stopped;
}

/** A user's environment may hold keys, homes and settings of the engines, so only PATH is passed on. */
function cleanEnvironment({ env }: Context): Record<string, string> {
  const { PATH = "", TMPDIR } = env;
  return { PATH, LANG: "C.UTF-8", ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}

function progressText({ engine, check, result, ms }: Check): string {
  return `${engine}: ${check}: ${result}${ms === 0 ? "" : ` (${(ms / 1000).toFixed(1)} s)`}`;
}

function print(context: Context, engines: readonly Certified[], network: string): void {
  const { terminal } = context;
  for (const { engine, program, version, reason, checks } of engines) {
    if (program === null) {
      context.print(`${paint(terminal, "bold", engine)}  ${reason ?? ""}`);
      continue;
    }
    context.print(
      paint(terminal, "bold", `${engine} ${version ?? "of unknown version"}  ${harmlessLine(program)}`),
    );
    const said = new Set<string>();
    const rows = checks.map(({ check, result, why }) => {
      const isRepeated = why !== null && said.has(why);
      if (why !== null) said.add(why);
      return [`  ${check}`, result, isRepeated ? "the same" : (why ?? "")];
    });
    for (const line of checkTable(rows, terminal)) context.print(line);
    context.print(`  ${verdict(checks)}`);
  }
  const ran = engines.some(({ program }) => program !== null);
  if (ran)
    context.print(paint(terminal, "dim", `Own home, dummy keys, scripted model; network: ${network}.`));
}

export function checkTable(
  rows: readonly (readonly string[])[],
  { stdout, columns }: Pick<Terminal, "stdout" | "columns">,
): string[] {
  return wrapTable([["  CHECK", "RESULT", "WHAT BROKE"], ...rows], stdout ? columns : undefined);
}

function verdict(checks: readonly Check[]): string {
  const count = (wanted: Check["result"]) => checks.filter(({ result }) => result === wanted).length;
  const parts = [`${count("passed")} passed`];
  if (count("broke") > 0) parts.push(`${plural(count("broke"), "check")} broke`);
  if (count("new") > 0) parts.push(`${count("new")} new`);
  if (count("not checked") > 0) parts.push(`${count("not checked")} not checked`);
  return parts.join(", ");
}
