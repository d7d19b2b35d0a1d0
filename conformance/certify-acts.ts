/**
 * `reprise doctor --certify` on the real engine, and on the same engine behind a program that changes one thing: each
 * change must be found and named, and nothing of the user's may be touched meanwhile.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Check } from "../src/core/certificate.ts";
import type { LabWorld } from "../src/certify/world.ts";
import { environment, type Ended, run, settle, until } from "../src/certify/place.ts";

const DEADLINE_MS = 240_000;

interface Change {
  /** Replaced in everything that the engine prints on stdout. */
  readonly reword?: readonly [from: string, to: string];
  /** A word that the engine suddenly does not know. */
  readonly refuse?: string;
}

export const CERTIFY_ACTS: Readonly<Record<string, (world: LabWorld) => Promise<void>>> = {
  "certify-as-it-is": async (world) => {
    const checks = await certified(world, {});
    const wrong = checks.filter(({ result }) => result !== "passed");
    if (wrong.length > 0) throw new Error(wrong.map(({ check, why }) => `${check}: ${why}`).join("; "));
  },
  "certify-renamed-line": async (world) => {
    const checks = await certified(world, { reword: ["thread.started", "thread.opened"] });
    mustSay(checks, "names its session", 'does not know (thread.opened): {"type":"thread.opened"');
  },
  "certify-reworded-error": async (world) => {
    const checks = await certified(world, {
      reword: ["401 Unauthorized: Incorrect API key provided", "please introduce yourself"],
    });
    mustSay(checks, "refused key", "please introduce yourself");
    const others = checks.filter(({ result }) => result === "broke");
    if (others.length !== 1) throw new Error(`more than that broke: ${JSON.stringify(others)}`);
  },
  "certify-without-resume": async (world) => {
    const checks = await certified(world, { refuse: "resume" });
    mustSay(checks, "names its session", "refused its command line: error: unrecognized subcommand 'resume'");
  },
};

function mustSay(checks: readonly Check[], check: string, text: string): void {
  const one = checks.find((found) => found.check.includes(check));
  if (one?.result !== "broke" || one.why?.includes(text) !== true)
    throw new Error(`no word of ${text}: ${JSON.stringify(one)}`);
}

/** Runs it with a home, a state directory and a model server that must all stay as they are. */
async function certified(world: LabWorld, change: Change): Promise<readonly Check[]> {
  const { place, lab, server, bench } = world;
  const program = join(place.root, "stub", lab.engine);
  mkdirSync(join(program, ".."));
  writeFileSync(program, stub(lab.program, change));
  chmodSync(program, 0o755);
  settle(place, { ...lab, program, prepare: () => {} }, server.url);
  const env = { ...environment(place, lab, server.url), CODEX_HOME: lab.engineHome(place) };
  const args = [bench.cli, "doctor", "--certify", lab.engine, "--json"];
  const running = run(process.execPath, args, { cwd: place.project, env, stdin: null });
  let ended: Ended | null = null;
  void running.ended.then((end) => (ended = end));
  const { stdout, stderr, code } = await until<Ended>("the certificate", () => ended, DEADLINE_MS);
  world.log.push(stdout, stderr);
  if (existsSync(lab.engineHome(place))) throw new Error("it wrote to the engine's own home");
  if (server.requests.length > 0) throw new Error("it asked the user's model");
  const left = readdirSync(place.tmp);
  if (left.length > 0) throw new Error(`it left behind ${left.join(", ")}`);
  const answer = JSON.parse(stdout) as { ok: boolean; engines: readonly { checks: readonly Check[] }[] };
  if (code !== (answer.ok ? 0 : 1)) throw new Error(`exit code ${code} although ok is ${answer.ok}`);
  return answer.engines.flatMap(({ checks }) => checks);
}

function stub(program: string, { reword, refuse }: Change): string {
  const refusal = `error: unrecognized subcommand '${refuse}'\n\nUsage: codex exec [OPTIONS] [PROMPT]\n`;
  return `#!/usr/bin/env node
const { spawn } = require("node:child_process");
const [words, refused, reword] = [process.argv.slice(2), ${JSON.stringify(refuse ?? null)}, ${JSON.stringify(reword ?? null)}];
if (words.includes(refused)) {
  process.stderr.write(${JSON.stringify(refusal)});
  process.exit(2);
}
const child = spawn(${JSON.stringify(program)}, words, { stdio: ["inherit", reword === null ? "inherit" : "pipe", "inherit"] });
let rest = "";
child.stdout?.setEncoding("utf8").on("data", (chunk) => {
  const lines = (rest + chunk).split("\\n");
  rest = lines.pop();
  for (const line of lines) process.stdout.write(line.replaceAll(...reword) + "\\n");
});
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => child.kill(name));
child.once("close", (code, signal) => (signal === null ? process.exit(code) : process.kill(process.pid, "SIGKILL")));
`;
}
