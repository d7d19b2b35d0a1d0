/** The laboratory of an engine, as types: everything in a case that depends on the engine. */
import type { DeliveredRights } from "./deliveries.ts";
import type { RequestRecord } from "./model-server/server.ts";

/** Where to look for evidence: one request, the engine's output, and its log of this turn. */
export interface LabSight {
  readonly turn: RequestRecord;
  readonly stdout: string;
  readonly log: string;
  /** The UI's screen with the answer. Null: no UI. */
  readonly screen: string | null;
}

/** The folders of one case. */
export interface LabPlace {
  readonly root: string;
  readonly home: string;
  readonly state: string;
  readonly project: string;
  readonly extra: string;
  readonly more: string;
  readonly tmp: string;
}

/** One option of a start, and where the request shows that it is in force. */
export interface Evidence {
  readonly what: string;
  /**
   * model: the name in the request. tools: the offered names. system: the instructions. body: the whole request,
   * including history. stdout: the engine's output. log: the engine's log of its last turn.
   */
  readonly in: "model" | "tools" | "system" | "body" | "stdout" | "log";
  readonly has?: string;
  readonly lacks?: string;
  /** How the engine's UI shows it, for evidence that would be on stdout. */
  readonly screen?: string;
  /** The engine keeps it with the conversation, so a resume without the option has it as well. */
  readonly kept?: boolean;
}

export interface Lab {
  /** The engine's name, or the name of a version: several versions of one engine are several labs. */
  readonly id: string;
  /** The engine's name in Reprise. */
  readonly engine: string;
  /** Longer than the engine needs from its start to its first request on a busy machine. */
  readonly idle: string;
  /** The tested program, an absolute path. */
  readonly program: string;
  /** The model of every case that does not name one. */
  readonly native: readonly string[];
  /** Reprise's options that every start needs. */
  readonly flags: readonly string[];
  /** Reprise's options that save time in cases that do not check what they leave out. */
  readonly quick: readonly string[];
  /** Native options that allow the model's shell commands. */
  readonly tools: readonly string[];
  /** A start with many options, and the proof of each. */
  readonly options: {
    readonly native: readonly string[];
    readonly evidence: readonly Evidence[];
    /** Kinds of options that the engine lacks, and why no substitute is tested. */
    readonly lacking: Readonly<Record<string, string>>;
  };
  /** The native command line for one headless turn with readable output. */
  text(message: string): readonly string[];
  env(place: LabPlace, url: string): Readonly<Record<string, string>>;
  prepare(place: LabPlace, url: string): void;
  /** Every file that holds the engine's conversations. */
  storeFiles(place: LabPlace): readonly string[];
  /** The engine's files of this conversation. Null: it is in a database. */
  sessionFiles(place: LabPlace, session: string): readonly string[] | null;
  /** The engine's log of the settings of its last turn; empty if it keeps none. */
  turnLog(place: LabPlace): string;
  /** Widens the default rights in the engine's settings. Null: no case does. */
  readonly widen: ((place: LabPlace) => void) | null;
  /** The engine's rights in this turn, from its log, its output or its offered tools. */
  rights(sight: LabSight): DeliveredRights;
  /** The number of conversations in the engine's store. Null: cannot be counted. */
  conversations(place: LabPlace): number | null;
  /** The folder with all the engine's files; the settings are written again after a wipe. */
  engineHome(place: LabPlace): string;
  /** Arguments that continue a conversation without Reprise and without options, message on stdin. */
  resumeByHand(session: string): readonly string[];
}
