/**
 * The durable records: a run and its attempts, as stored in the index and mirrored in the run directory.
 *
 * Types only, derived from the schemas in `schemas.ts`, where the fields are explained. Importing this file costs no
 * start-up time.
 */
import type {
  attemptSchema,
  processSchema,
  receiptSchema,
  RecordOf,
  runSchema,
  startSchema,
  usedSchema,
} from "./schemas.ts";

export type RunRecord = RecordOf<typeof runSchema>;
export type RunStatus = RunRecord["status"];

export type Session = RunRecord["session"];
/** A session id that an attempt saw or chose. Never removed (I3). */
export type SeenSession = RunRecord["sessions"][number];
export type SessionSource = SeenSession["source"];

/** How the run was first started. */
export type Launch = RunRecord["launch"];
/** A recorded environment variable. */
export type LaunchEnv = Launch["env"][number];
/** A variable that gives rights. */
export type RightsVariable = Launch["rights"][number];
/** A file or folder that decides on rights. */
export type RightsFile = NonNullable<Launch["files"]>[number];
/** How an engine's settings treat a folder: trusted, not trusted, or not mentioned. */
export type FolderTrust = NonNullable<Launch["folderTrust"]>;
export type Mode = Launch["mode"];

/** A copy of the engine's session in the run's `escrow/`. */
export type Escrow = NonNullable<RunRecord["escrow"]>;
export type EscrowFile = Escrow["files"][number];

export type AttemptRecord = RecordOf<typeof attemptSchema>;
export type AttemptKind = AttemptRecord["kind"];

/** What an attempt used, without anything else about it. Outlives its run. */
export type UsedAttempt = RecordOf<typeof usedSchema>;

/** Identifies one process, even after a reboot or when the pid is reused (I6). */
export type ProcessIdentity = RecordOf<typeof processSchema>;
/** A file in `lives/` of the state directory that a process keeps locked as long as it lives. */
export type Life = NonNullable<ProcessIdentity["life"]>;

/** Proof of a resume, `receipt.json` in the attempt. */
export type Receipt = RecordOf<typeof receiptSchema>;

/** The files of an attempt's checkout before the agent started, `start.json` in the attempt. */
export type StartRecord = RecordOf<typeof startSchema>;
