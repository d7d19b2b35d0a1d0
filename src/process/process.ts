/**
 * OS processes: starting an agent, a tool or a gate, identifying processes, ending a whole tree.
 *
 * The door of the folder. It knows pids, pipes, terminals and signals, not runs or engines.
 */
export type { Child, ChildSpec } from "./child.ts";
export { runsUnmarked, writtenBy } from "./files.ts";
export { plainEnv, runGate } from "./gate.ts";
export { examine, identify, isAlive, self, self as owner } from "./identity.ts";
export { spawnPiped } from "./pipe.ts";
export { isFlocked, resolveProgram } from "./program.ts";
export { spawnPty } from "./pty.ts";
export { runTool } from "./tool.ts";
export { asUser } from "./umask.ts";
export { endTree, AgentProcesses, findMarked, findMarkedBy, findStrays, signal } from "./tree.ts";
export type { EndingTimes, EndingStep } from "./tree.ts";
