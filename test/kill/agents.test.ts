/** Kills at random moments, as many as a test run has time for; `npm run test:long` has more. */
import { test } from "vitest";
import { resumeAll } from "../e2e/agent-states.ts";
import { killDaemons, killStarts, stopForAWhile } from "../e2e/agent-storms.ts";
import { killDrivers } from "../e2e/pipeline-storms.ts";

test(
  "daemons that are killed while they race double no agent and lose none",
  () => killDaemons(15, 7),
  120_000,
);
test("a killed `agent run` leaves nothing, or an agent that works", () => killStarts(8, 11), 120_000);
test("a daemon that was suspended causes no storm", () => stopForAWhile(3, 6_000), 120_000);
test("resume --all --kill reports the result for each agent", () => resumeAll(1), 120_000);
test("pipelines whose drivers are killed begin no agent twice", () => killDrivers(8, 3), 120_000);
