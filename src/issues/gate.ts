/**
 * The project's own commands on an agent's work. No shell sees them (I10), their output is bounded, and nothing that
 * they started outlives them.
 */
import { isAbsolute, join } from "node:path";
import type { GateCommand } from "../core/config-issues.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine, plain } from "../lib/harmless.ts";
import type { Redact } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";

export interface GateRun {
  readonly commands: readonly GateCommand[];
  readonly cwd: string;
  /** Added to the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Names this gate among all processes. */
  readonly marker: string;
  readonly redact: Redact;
}

export interface GateVerdict {
  readonly passed: boolean;
  /** For each command that failed: why in one sentence, then the end of its output. */
  readonly findings: readonly string[];
}

const MAX_OUTPUT = 16 * 1024 * 1024;
const MAX_DETAIL = 4_000;

/** One after the other until one fails. */
export async function runGate(deps: Deps, gate: GateRun): Promise<GateVerdict> {
  // What an earlier one left behind, after a crash of ours, would disturb this one.
  await endGate(deps, gate.marker);
  for (const command of gate.commands) {
    const finding = await check(deps, gate, command);
    await endGate(deps, gate.marker);
    if (finding !== null) return { passed: false, findings: [finding] };
  }
  return { passed: true, findings: [] };
}

/** Ends whatever of it runs. */
export async function endGate(deps: Deps, marker: string): Promise<void> {
  await deps.processes.endTree(null, marker, "terminate");
}

/** Null: it passed. */
async function check(deps: Deps, gate: GateRun, { run, timeoutMs }: GateCommand): Promise<string | null> {
  const [name = "", ...args] = run;
  const shown = harmlessLine(gate.redact(run.join(" ")), 120);
  const file = name.includes("/")
    ? isAbsolute(name)
      ? name
      : join(gate.cwd, name)
    : deps.processes.resolveProgram(name, deps.env);
  if (file === null)
    return `${shown} could not be run: there is no program ${harmlessLine(name, 80)} on PATH.`;
  const own = Object.entries(deps.env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const env = { ...Object.fromEntries(own), ...gate.env, PWD: gate.cwd, REPRISE_ATTEMPT: gate.marker };
  let result: Awaited<ReturnType<typeof deps.processes.runTool>>;
  try {
    result = await deps.processes.runTool(file, args, {
      cwd: gate.cwd,
      env,
      timeoutMs,
      maxBytes: MAX_OUTPUT,
    });
  } catch (error) {
    return `${shown} could not be run: ${error instanceof Error ? error.message : "the system refused"}`;
  }
  if (result.code === 0) return null;
  const output = gate
    .redact(plain(`${result.stdout.slice(-64_000)}\n${result.stderr.slice(-64_000)}`))
    .trim();
  const tail = output.length <= MAX_DETAIL ? output : `…${output.slice(-MAX_DETAIL)}`;
  return `${shown} ${howEnded(result, timeoutMs)}${tail === "" ? "" : `\n${tail}`}`;
}

function howEnded(
  {
    code,
    signal,
    timedOut,
    stdout,
    stderr,
  }: { code: number | null; signal: string | null; timedOut: boolean; stdout: string; stderr: string },
  timeoutMs: number,
): string {
  if (timedOut) return `took longer than ${formatDuration(timeoutMs)} and was ended.`;
  if (Math.max(Buffer.byteLength(stdout), Buffer.byteLength(stderr)) >= MAX_OUTPUT)
    return `printed more than ${MAX_OUTPUT / 1024 / 1024} MiB and was ended.`;
  return code === null ? `was ended by ${signal ?? "a signal"}.` : `failed with exit code ${code}.`;
}
