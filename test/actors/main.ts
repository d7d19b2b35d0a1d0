/**
 * The scripted agent in the role of a real engine, as a program: `actor --as codex -- <arguments of codex>`. Tests put it
 * in the place of the engines. README.md says what each role plays.
 */
import { runAgent } from "../../src/demo/agent.ts";
import { demo } from "../../src/demo/demo.ts";
import type { Persona } from "../../src/demo/persona.ts";
import { claude } from "./claude.ts";
import { asksForServer, codex } from "./codex.ts";
import { serve } from "./codex-server.ts";
import { gemini } from "./gemini.ts";
import { iflow } from "./iflow.ts";
import { opencode } from "./opencode.ts";

const ROLES: readonly Persona[] = [
  demo,
  { ...codex, serve: (argv, stage) => (asksForServer(argv) ? serve(codex, stage) : null) },
  claude,
  gemini,
  iflow,
  opencode,
];

const [as, id, dashes, ...argv] = process.argv.slice(2);
const role = ROLES.find((one) => one.id === id);
if (as !== "--as" || dashes !== "--" || role === undefined) {
  process.stderr.write(`usage: actor --as ${ROLES.map((one) => one.id).join("|")} -- ARGS\n`);
  process.exit(2);
}
await runAgent(role, argv);
