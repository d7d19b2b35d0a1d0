/**
 * The door of `state`: the files of the state directory, except the index.
 *
 * All of Reprise's files about runs pass through here: checked for ownership, written atomically or appended, redacted
 * unless they are the raw tape. Other folders decide what a run *means*.
 */
export {
  checkOwnDirectory,
  checkWrites,
  makeDirectory,
  openNew,
  openToRead,
  readOwnText,
  readRecord,
  removeQuietly,
  storageFault,
  writeAtomic,
  writeAtomicAsync,
  writeFully,
} from "./files.ts";
export { type BundleEntry, writeBundle } from "./bundle.ts";
export {
  entriesOf,
  fileSize,
  fileStamp,
  isDirectory,
  isEmptyDirectory,
  isRootOnly,
  keepsModes,
  modifiedAtMs,
  readSmallText,
  realPath,
  resolveDirectory,
  spelled,
} from "./places.ts";
export { daemonLock, removeHolderFiles, runtimeDir } from "./runtime.ts";
export {
  openState,
  saveSettings,
  sharedLock,
  startLock,
  type StateDir,
  assertReadableDirectory,
  stateDirectory,
} from "./directory.ts";
export { assertNoMounts, directoryId, namesOf } from "./mounts.ts";
export { generationMark } from "./generation.ts";
export {
  acceptCopy,
  assertOwnState,
  copiedFrom,
  ensureIdentity,
  homeOfOwner,
  indexGuards,
  isOriginal,
  type MovedState,
  movedState,
  movedWords,
  stateMoved,
  stateOrigin,
} from "./identity.ts";
export {
  compareTree,
  contentDigest,
  type FoundRepository,
  hashFile,
  isCache,
  kindAt,
  pathIn,
  repositoriesBelow,
  type TreeEntry,
} from "./tree.ts";
export {
  agentLock,
  attemptDir,
  beginAttemptDir,
  createAttemptDir,
  createRunDir,
  hasAgentOf,
  listAttemptDirs,
  listRunDirs,
  loadAttemptFile,
  loadReceipt,
  loadRunFile,
  readAgentFile,
  removeRunDir,
  runDirAt,
  saveAgentFile,
  saveAttemptFile,
  saveReceipt,
  saveRunFile,
  storable,
  storableAgent,
} from "./runs.ts";
export { type LogName, openLog, openTape, type Tape } from "./tape.ts";
export {
  checkEscrow,
  continuesCopy,
  describeCopy,
  dropOldEscrow,
  endsCopy,
  type EscrowSource,
  isEmptied,
  keepEscrow,
  keepEscrowText,
  readCopy,
} from "./escrow.ts";
export {
  beginLive,
  endLive,
  fileAt,
  holdsPieces,
  linkPiece,
  type LivePiece,
  livePieces,
  liveSession,
  putBackLive,
  sourceOf,
  wholesOf,
} from "./escrow-live.ts";
export { followStream, readStream } from "./logs.ts";
export {
  indexIdentity,
  isLeftover,
  replaceIndex,
  stateFacts,
  stuckTrash,
  sweepRun,
  sweepTemp,
  sweepTrash,
} from "./upkeep.ts";
