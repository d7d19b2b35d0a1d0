/** The storms of `test/kill/agents.test.ts` for longer: `npm run build && npm run test:long`. */
import { test } from "vitest";
import { killDaemons, killStarts, stopForAWhile } from "../e2e/agent-storms.ts";
import { resumeAll } from "../e2e/agent-states.ts";
import { killDrivers } from "../e2e/pipeline-storms.ts";

const HOUR = 3_600_000;

test("200 kills of daemons that race", () => killDaemons(200, 20_261_115), HOUR);
test("100 killed starts", () => killStarts(100, 42), HOUR);
test("a daemon that stands still for two minutes", () => stopForAWhile(10, 120_000), HOUR);
test("20 agents in mixed states", () => resumeAll(3), HOUR);
test("100 kills of daemons that drive pipelines", () => killDrivers(100, 5), HOUR);
