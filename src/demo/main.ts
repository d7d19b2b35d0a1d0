/** The demo agent that ships with Reprise, as a program: `dist/demo-agent.js`. docs/engines/demo.md describes it. */
import { runAgent } from "./agent.ts";
import { demo } from "./demo.ts";

void runAgent(demo, process.argv.slice(2));
