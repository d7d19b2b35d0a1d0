/**
 * The door of `supervisor`: supervised agents and pipelines, the daemon that acts for them, and the client of the daemon.
 */
export { getAgent, listAgents, removeAgent, selectAgent, startAgent, stopAgent } from "./agents.ts";
export {
  commandToResume,
  type ResumeCommand,
  storeStrict,
  forecastPipelineResume,
  forecastResume,
  type ResumeForecast,
} from "./agent-resume.ts";
export { runDaemon } from "./daemon.ts";
export { openDaemonLog } from "./daemon-log.ts";
export { listDecisions, resolveDecision, lateAnswerFault } from "./decisions.ts";
export { type AgentView, type AgentSnapshot, takeSnapshot, runOf, viewOf } from "./snapshot.ts";
export { refuseSecretMessage } from "./secrets.ts";
