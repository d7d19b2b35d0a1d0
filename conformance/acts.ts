/** What a case of the suite can do to an engine's files and processes between two attempts. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sessionFiles, sessionOf } from "../src/certify/acts.ts";
import { isSeen } from "../src/certify/checks.ts";
import { APPROVAL_ACTS } from "./approval-acts.ts";
import { CERTIFY_ACTS } from "./certify-acts.ts";
import { ISSUE_ACTS } from "./issue-acts.ts";
import { PARALLEL_ACTS } from "./parallel-acts.ts";
import { OBSERVE_ACTS } from "./observe-acts.ts";
import { forgedLines } from "../src/certify/model-server/directives.ts";
import { environment, processesOf, run, settle, signal, until } from "../src/certify/place.ts";
import type { LabAct, LabWorld } from "../src/certify/world.ts";
import { REVIEW_ACTS } from "./review-acts.ts";
import { REVIEW_RIGHTS_ACTS } from "./review-rights-acts.ts";
import { SUPERVISOR_ACTS } from "./supervisor-acts.ts";

const DEADLINE_MS = 60_000;

export const ACTS: Readonly<Record<string, LabAct>> = {
  ...CERTIFY_ACTS,
  ...REVIEW_ACTS,
  ...REVIEW_RIGHTS_ACTS,
  ...APPROVAL_ACTS,
  ...OBSERVE_ACTS,
  ...SUPERVISOR_ACTS,
  ...ISSUE_ACTS,
  ...PARALLEL_ACTS,
  /** The last line was never finished. */
  "tear-session": (world) => {
    for (const file of sessionFiles(world) ?? []) writeFileSync(file, readFileSync(file).subarray(0, -7));
  },
  "garble-session": (world) => {
    for (const file of sessionFiles(world) ?? []) writeFileSync(file, "no JSON at all\n\u0000\u0001\n");
  },
  "remove-project": ({ place }) => renameSync(place.project, `${place.project}-away`),
  "return-project": ({ place }) => renameSync(`${place.project}-away`, place.project),
  /** From now on the engine is started without the words that name a conversation: it begins a new one each time. */
  "forget-on-resume": (world) => {
    const words = `resume | --resume | --session | *${sessionOf(world)}*`;
    stand(world, `for word; do shift; case "$word" in ${words}) ;; *) set -- "$@" "$word" ;; esac; done`);
  },
  /** From now on lines with an id that nobody gave out stand on the engine's stderr. */
  "forge-on-stderr": (world) => stand(world, `cat >&2 <<'END'\n${forgedLines().join("\n")}\nEND`),
  /** Another conversation of the engine's in the same folder, recorded in another state directory. */
  decoy: async (world) => {
    const { bench, lab, place, server } = world;
    settle(place, lab, server.url);
    const env = { ...environment(place, lab, server.url), REPRISE_HOME: join(place.more, "state") };
    const args = [
      "start",
      lab.engine,
      "--json",
      ...lab.flags,
      "Somebody else's conversation.",
      "--",
      ...lab.native,
    ];
    const ended = await run(process.execPath, [bench.cli, ...args], { cwd: place.project, env, stdin: null })
      .ended;
    const { session } = JSON.parse(ended.stdout) as { session?: { value: string | null } };
    if ((session?.value ?? null) === null) throw new Error(`no decoy: ${ended.stdout} ${ended.stderr}`);
    world.decoy = session?.value ?? null;
  },
  "engine-as-before": (world) => void (world.program = null),
  "widen-settings": (world) => void (world.widened = true),
  /** The run's records name a conversation that the engine never had. */
  "unknown-session": (world) => {
    const session = sessionOf(world);
    for (const name of readdirSync(world.place.state).filter((one) => one.startsWith("index.db")))
      rmSync(join(world.place.state, name));
    const runs = join(world.place.state, "runs");
    for (const name of readdirSync(runs, { recursive: true, encoding: "utf8" })) {
      if (!/\.jsonl?$/.test(name)) continue;
      const file = join(runs, name);
      writeFileSync(file, readFileSync(file, "utf8").replaceAll(session, `${session.slice(0, -6)}000000`));
    }
  },
  "archive-session": (world) => native(world, ["archive", sessionOf(world)]),
  "unarchive-session": (world) => native(world, ["unarchive", sessionOf(world)]),
  /** A process that Reprise did not start continues the conversation and is kept busy by the model. */
  "hold-outside": async (world) => {
    const args = world.lab.resumeByHand(sessionOf(world));
    const message = "Somebody else is at it. @@slow:60000";
    const env = environment(world.place, world.lab, world.server.url);
    run(world.lab.program, args, { cwd: world.place.project, env, stdin: message });
    await streaming(world, message);
  },
  /**
   * The engine continues the conversation without Reprise and without the options of the start: evidence that still
   * stands there comes from the history, and would not notice a resume that lost the option.
   */
  "resume-without-options": async (world) => {
    const { lab, place, server } = world;
    const message = "By hand, without options.";
    settle(place, lab, server.url);
    world.messages.push(message);
    const env = environment(place, lab, server.url);
    const args = lab.resumeByHand(sessionOf(world));
    const ended = await run(lab.program, args, { cwd: place.project, env, stdin: message }).ended;
    const turn = server.requests.findLast(({ users }) => users.at(-1) === message);
    if (turn === undefined) throw new Error(`nothing was sent by hand: ${ended.stdout} ${ended.stderr}`);
    const sight = { turn, stdout: ended.stdout, log: lab.turnLog(place), screen: null };
    const wrong = lab.options.evidence.filter((one) => isSeen(one, sight, place) !== (one.kept ?? false));
    const names = wrong.map(
      ({ what, kept }) => `${what} ${kept === true ? "is lost" : "still stands there"}`,
    );
    if (wrong.length > 0) throw new Error(`without the options: ${names.join(", ")}`);
  },
  /** Reprise itself continues the conversation, and is still at it. */
  "hold-inside": async (world) => {
    const message = "This takes a while. @@slow:60000";
    const env = environment(world.place, world.lab, world.server.url);
    const args = [world.bench.cli, "resume", "--json", world.shown?.handle ?? "", message];
    run(process.execPath, args, { cwd: world.place.project, env, stdin: null });
    await streaming(world, message);
  },
  "end-holders": async ({ place }) => {
    for (const pid of processesOf(place.root)) signal(pid, "SIGTERM");
    await until("the holders are gone", () => processesOf(place.root).length === 0, DEADLINE_MS);
  },
};

/** A program in the engine's place that does something and then becomes the engine. */
function stand(world: LabWorld, script: string): void {
  const file = join(world.place.root, "stand", world.lab.engine);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, `#!/bin/sh\n${script}\nexec ${JSON.stringify(world.lab.program)} "$@"\n`);
  chmodSync(file, 0o755);
  world.program = file;
}

/** Waits until the model has begun to answer, and the engine has written the message down. */
async function streaming(world: LabWorld, message: string): Promise<void> {
  world.messages.push(message);
  const isSaid = () =>
    world.server.requests.some((one) => one.users.at(-1) === message && one.state === "streaming");
  await until("the model answers the holder", isSaid, DEADLINE_MS);
}

async function native(world: LabWorld, args: readonly string[]): Promise<void> {
  const env = environment(world.place, world.lab, world.server.url);
  const ended = await run(world.lab.program, args, { cwd: world.place.project, env, stdin: null }).ended;
  if (ended.code !== 0) throw new Error(`${args.join(" ")}: ${ended.stderr}`);
}
