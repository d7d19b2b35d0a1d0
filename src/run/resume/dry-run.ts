/** What a resume would do, without starting anything: the same as a real one up to the first change. */
import type { AttemptKind, RunRecord } from "../../core/records.ts";
import type { Command } from "../../engines/engine.ts";
import type { Deps } from "../deps.ts";
import { expectedEscrow } from "../escrow/escrow.ts";
import { assertNoBatch } from "../leases.ts";
import type { ResumeOptions } from "./options.ts";
import { prepareResume } from "./prepare.ts";

export interface DryRun {
  readonly handle: string;
  readonly kind: AttemptKind;
  readonly command: {
    readonly program: string;
    readonly args: readonly string[];
    readonly cwd: string;
    readonly stdin: string | null;
  };
  readonly message: string | null;
  readonly notes: readonly string[];
  /** The receipt as it would be written, as far as it can be known before the engine answers. */
  readonly receipt: {
    readonly asked: string | null;
    readonly cwd: string;
    readonly restoredFromEscrow: boolean;
    readonly options: Command["options"];
  };
}

export async function dryRun(deps: Deps, run: RunRecord, wish: ResumeOptions): Promise<DryRun> {
  await assertNoBatch(deps, run);
  const expected = await expectedEscrow(deps, run);
  const { command, kind, message, notes, plan, setup } = await prepareResume(deps, expected, wish);
  const [program, ...first] = setup.program;
  return {
    handle: run.handle,
    kind,
    command: { program, args: [...first, ...command.args], cwd: run.cwd, stdin: command.stdin },
    message,
    notes: [...notes, ...(command.warnings ?? [])],
    receipt: {
      asked: plan.do === "continue" ? plan.session : null,
      cwd: run.cwd,
      restoredFromEscrow: plan.do === "continue" && plan.restore,
      options: command.options,
    },
  };
}
