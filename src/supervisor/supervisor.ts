/**
 * The door of `supervisor`: agents that are kept moving by their runbooks, the daemon that does it, and the way to it.
 */
export { getAgent, listAgents, removeAgent, selectAgent, startAgent, stopAgent } from "./agents.ts";
export {
  backCommand,
  type BackCommand,
  keepConversation,
  pipelineWayOn,
  wayBack,
  type WayBack,
} from "./bring-back.ts";
export { daemonPlaces, ensureDaemon, findDaemon, readDaemonLog } from "./client.ts";
export type { Daemon, ResumedAgent } from "./client.ts";
export { runDaemon } from "./daemon.ts";
export { openDaemonLog } from "./daemon-log.ts";
export { listDecisions, resolveDecision, tooLate } from "./escalate.ts";
export { type AgentView, type Look, lookAt, runOf, viewOf } from "./look.ts";
export { cancelPipeline, listPipelines, resumePipeline, selectPipeline, startPipeline } from "./pipelines.ts";
export { refuseSecretMessage } from "./secrets.ts";
