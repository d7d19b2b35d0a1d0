/** The state that the parts of the interpreter share while a case runs. */
import type { CaseStep, CaseTalk } from "./case.ts";
import type { Shown } from "./checks.ts";
import type { DeliveredRights } from "./deliveries.ts";
import type { Lab, LabPlace } from "./lab.ts";
import type { ModelServer } from "./model-server/server.ts";
import type { Bench, Running } from "./place.ts";

/** The state of a running case. */
export interface LabWorld {
  readonly bench: Bench;
  readonly place: LabPlace;
  readonly lab: Lab;
  readonly server: ModelServer;
  readonly messages: string[];
  readonly log: string[];
  /** Null: this is `doctor --certify`. */
  readonly extras: Extras | null;
  /** Resumes that should have worked, and resumes that did. */
  readonly resumes: { meant: number; worked: number };
  /** Leaves out slow work that the case does not check. */
  readonly thrifty: boolean;
  shown: Shown | null;
  /** Reprise's exit code in the last step. */
  code: number | null;
  /** The UI's screen with the answer of the last step. Null: no UI. */
  screen: string | null;
  /** The program in place of the engine. Null: the engine itself. */
  program: string | null;
  /** The engine's settings grant more than at the start of the case. */
  widened: boolean;
  /** The engine's rights when each kind was first seen. */
  rights: DeliveredRights;
  /** A conversation of the engine that is unrelated to the run. Null: there is no other. */
  decoy: string | null;
}

/** One start or resume. */
export interface Order {
  readonly step: CaseStep;
  readonly talk: CaseTalk;
  readonly message: string | null;
  readonly env: Readonly<Record<string, string>>;
}

/** An act of a case on an engine's files and processes between two attempts. */
export type LabAct = (world: LabWorld, words: readonly string[]) => Promise<void> | void;

/** Abilities that only the conformance suite has. The cases of `doctor --certify` need none of them. */
export interface Extras {
  readonly acts: Readonly<Record<string, LabAct>>;
  /** Runs Reprise on the kind of terminal that the step names. */
  onTerminal(world: LabWorld, order: Order, args: readonly string[]): Promise<Running>;
  /** Types the message into the engine's UI, and leaves or interrupts it. */
  useUi(world: LabWorld, order: Order, running: Running): Promise<void>;
  /** The attempt as a person sees it afterwards, by command. */
  pages(world: LabWorld, env: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  /** Makes a fixture of the last attempt. */
  record(world: LabWorld, name: string): void;
}
