/** The laboratory of an engine, as types: what a case asks of an engine in the engine's own words. */
import type { Rights } from "./deliveries.ts";
import type { RequestRecord } from "./model-server/server.ts";

/** Where evidence is looked for: one request, what the engine printed, and what it wrote down about this turn. */
export interface Sight {
  readonly turn: RequestRecord;
  readonly stdout: string;
  readonly log: string;
  /** What its UI showed with the answer; null: there was none. */
  readonly screen: string | null;
}

/** The folders of one case. */
export interface Place {
  readonly root: string;
  readonly home: string;
  readonly state: string;
  readonly project: string;
  readonly extra: string;
  readonly more: string;
  readonly tmp: string;
}

/** One option of a start, and where what the model was sent shows that it is in force. */
export interface Evidence {
  readonly what: string;
  /**
   * model: the name in the request. tools: names on offer. system: the instructions. body: the whole request, history
   * included. stdout: what the engine printed. log: what the engine wrote down about its last turn.
   */
  readonly in: "model" | "tools" | "system" | "body" | "stdout" | "log";
  readonly has?: string;
  readonly lacks?: string;
  /** What the engine's UI shows of it, where it would print it on stdout. */
  readonly screen?: string;
  /** The engine itself keeps it with the conversation: a resume without the option has it all the same. */
  readonly kept?: boolean;
}

export interface Lab {
  /** The engine's name, or that of one of its versions: several versions of one engine are several labs. */
  readonly id: string;
  /** The engine's name in Reprise. */
  readonly engine: string;
  /** Longer than the engine ever needs from its start to its first request, on a busy machine. */
  readonly idle: string;
  /** The program that is tried: an absolute path. */
  readonly program: string;
  /** The model of every case that names none. */
  readonly native: readonly string[];
  /** Reprise's own options that every start needs. */
  readonly flags: readonly string[];
  /** Reprise's options that save time where a case does not look at what they leave out. */
  readonly quick: readonly string[];
  /** Native options that let the model's shell commands run. */
  readonly tools: readonly string[];
  /** A start with many options, and the proof of each. */
  readonly options: {
    readonly native: readonly string[];
    readonly evidence: readonly Evidence[];
    /** Kinds of options that the engine does not have, and why nothing stands for them here. */
    readonly lacking: Readonly<Record<string, string>>;
  };
  /** Its own command line for one headless turn whose output is readable text. */
  text(message: string): readonly string[];
  env(place: Place, url: string): Readonly<Record<string, string>>;
  prepare(place: Place, url: string): void;
  /** Every file in which the engine keeps what was said. */
  storeFiles(place: Place): readonly string[];
  /** Where the engine keeps this conversation; null where it is in a database. */
  sessionFiles(place: Place, session: string): readonly string[] | null;
  /** What the engine itself wrote down about the settings of its last turn; empty where it writes nothing of the kind. */
  turnLog(place: Place): string;
  /** Changes its settings so that it may do more where a command line says nothing; null: no case does. */
  readonly widen: ((place: Place) => void) | null;
  /** What the engine may do in this turn, from its own log, its output or the tools that it offers the model. */
  rights(sight: Sight): Rights;
  /** How many conversations the engine's own store holds; null: it cannot be counted. */
  conversations(place: Place): number | null;
  /** The folder in which the engine keeps everything; its settings are written again when it was wiped. */
  engineHome(place: Place): string;
  /** Arguments that continue a conversation without Reprise and without any option, message on stdin. */
  resumeByHand(session: string): readonly string[];
}
