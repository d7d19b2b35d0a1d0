/** The storms of `test/kill/agents.test.ts` for longer: `npm run build && npm run test:long`. */
import { test } from "vitest";
import { killDaemons, killStarts, stopForAWhile } from "../e2e/agent-storms.ts";
import { resumeAll } from "../e2e/agent-states.ts";
import { killDrivers } from "../e2e/pipeline-storms.ts";

const HOUR = 3_600_000;

test("200 kills of racing daemons double no agent and lose none", () => killDaemons(200, 20_261_115), HOUR);
test("100 killed starts leave nothing, or an agent that works", () => killStarts(100, 42), HOUR);
test("a daemon that is suspended for two minutes causes no storm", () => stopForAWhile(10, 120_000), HOUR);
test("resume --all --kill reports the result for 20 agents in mixed states", () => resumeAll(3), HOUR);
test("100 kills of daemons that drive pipelines begin no agent twice", () => killDrivers(100, 5), HOUR);
