/** What the parts of the interpreter hand each other while a case runs. */
import type { CaseStep, CaseTalk } from "./case.ts";
import type { Shown } from "./checks.ts";
import type { Rights } from "./deliveries.ts";
import type { Lab, Place } from "./lab.ts";
import type { ModelServer } from "./model-server/server.ts";
import type { Bench, Running } from "./place.ts";

/** What is known while a case runs. */
export interface World {
  readonly bench: Bench;
  readonly place: Place;
  readonly lab: Lab;
  readonly server: ModelServer;
  readonly messages: string[];
  readonly log: string[];
  /** Null: this is `doctor --certify`. */
  readonly extras: Extras | null;
  /** Resumes that should have worked, and those that did. */
  readonly resumes: { meant: number; worked: number };
  /** Leave out what costs time and the case does not look at. */
  readonly thrifty: boolean;
  shown: Shown | null;
  /** Reprise's exit code in the last step. */
  code: number | null;
  /** What the engine's UI showed with the answer of the last step; null: it was not used. */
  screen: string | null;
  /** What stands in the engine's place; null: nothing, it is called itself. */
  program: string | null;
  /** The engine's settings grant more than when the case began. */
  widened: boolean;
  /** What the engine could do when each kind of right was seen first. */
  rights: Rights;
  /** A conversation of the engine's that has nothing to do with the run; null: there is none. */
  decoy: string | null;
}

/** One start or resume. */
export interface Order {
  readonly step: CaseStep;
  readonly talk: CaseTalk;
  readonly message: string | null;
  readonly env: Readonly<Record<string, string>>;
}

/** Something that a case does to an engine's files and processes between two attempts. */
export type Act = (world: World, words: readonly string[]) => Promise<void> | void;

/** What only the conformance suite does in a case. The cases of `doctor --certify` ask for none of it. */
export interface Extras {
  readonly acts: Readonly<Record<string, Act>>;
  /** Runs Reprise on the kind of terminal that the step asks for. */
  onTerminal(world: World, order: Order, args: readonly string[]): Promise<Running>;
  /** Types the message into the engine's UI, and leaves or interrupts it. */
  useUi(world: World, order: Order, running: Running): Promise<void>;
  /** What a person is shown of the attempt afterwards, by command. */
  pages(world: World, env: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  /** Makes a fixture of the last attempt. */
  record(world: World, name: string): void;
}
