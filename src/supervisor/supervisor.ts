/**
 * The door of `supervisor`: agents that are kept moving by their runbooks, the daemon that does it, and the way to it.
 */
export { getAgent, listAgents, removeAgent, selectAgent, startAgent, stopAgent } from "./agents.ts";
export { daemonPlaces, ensureDaemon, findDaemon, readDaemonLog } from "./client.ts";
export type { Daemon, Resumed } from "./client.ts";
export { runDaemon } from "./daemon.ts";
export { openDaemonLog } from "./daemon-log.ts";
export { chanceOf } from "./delay.ts";
export { decide, type Decision, type Facts } from "./decide.ts";
export { listDecisions, resolveDecision } from "./escalate.ts";
export { fromStored, type NewSupervisionEvent, toStored } from "./history.ts";
export { type AgentView, type Look, lookAt, runOf, viewOf } from "./look.ts";
export { type EndedAttempt, endedAttempt, occurrenceOf, type Seen } from "./occurrence.ts";
export { cancelPipeline, listPipelines, resumePipeline, selectPipeline, startPipeline } from "./pipelines.ts";
export { type Alive, CONTINUE, planResume, type ResumeFacts, type ResumePlan } from "./plan.ts";
export { refuseSecretMessage } from "./secrets.ts";
export { inFlight } from "./tally.ts";
