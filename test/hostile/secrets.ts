/** P11: secrets go in at every door, and are stored nowhere but in files that are exact by intent. */
import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { AgentBox } from "../e2e/agent-box.ts";
import { ArgumentWatch, Canaries, inArguments, placesIn, RAW } from "./canaries.ts";
import { callsOf, type Scene, SCENES } from "./secret-scenes.ts";

export const secrets: Promised = {
  id: "P11",
  what: "places that could hold a secret",
  wrong: "held one",
  means:
    "Of 16 secrets sent through every command, none is in the index, records, events, Reprise's logs, replies, notifications, exports or the arguments of any process; raw tapes are exact and 0600",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  // Side by side: each spends most of its time waiting.
  const found = await Promise.all(SCENES.map((scene) => play(scene, scale)));
  const sum = (of: keyof Found["figures"]) => found.reduce((total, { figures }) => total + figures[of], 0);
  return {
    tried: sum("files") + sum("said"),
    broken: found.flatMap(({ broken }) => broken),
    untried: ["core dumps, and what an engine stores in its own home"],
    figures: { files: sum("files"), "outputs and replies": sum("said"), "looks at arguments": sum("looks") },
  };
}

interface Found {
  readonly broken: readonly string[];
  readonly figures: { readonly files: number; readonly said: number; readonly looks: number };
}

async function play(scene: (typeof SCENES)[number], { short }: Scale): Promise<Found> {
  const canaries = new Canaries();
  let done: Scene | null = null;
  const broken: string[] = [];
  using watch = new ArgumentWatch(canaries);
  try {
    done = await scene(canaries, short);
    broken.push(...judge(done, canaries));
  } catch (error) {
    broken.push(`a scene did not come to its end: ${String(error).slice(0, 500)}`);
  }
  const files = done === null ? 0 : restingIn(done).length;
  if (done !== null) await end(done);
  const figures = { files, said: done?.said.length ?? 0, looks: watch.looks };
  return { broken: [...watch.found, ...broken], figures };
}

function restingIn({ box }: Scene) {
  return placesIn(box.state).filter(({ path, isFile }) => isFile && !RAW.test(path));
}

function judge(scene: Scene, canaries: Canaries): string[] {
  const { name, box, said, tapes } = scene;
  const places = placesIn(box.state);
  const where = (path: string) => `${relative(box.state, path)} of ${name}`;
  const calls = existsSync(callsOf(box)) ? readFileSync(callsOf(box), "utf8").split("\n") : [];
  return [
    ...calls.flatMap((call) =>
      inArguments(canaries, call, call.startsWith("agent ")).map(
        (hit) => `${hit} in the arguments of ${call.slice(0, 80)}`,
      ),
    ),
    ...restingIn(scene).flatMap(({ path }) =>
      canaries.in(readFileSync(path)).map((hit) => `${hit} in ${where(path)}`),
    ),
    ...said.flatMap(([by, text]) => canaries.in(text).map((hit) => `${hit} in what ${by.slice(0, 60)} said`)),
    ...places
      // What agents and git make has the user's own modes; nobody else gets as far as that.
      .filter(({ path, mode }) => (mode & 0o077) !== 0 && !/\/runs\/[^/]+\/work(?:tree)?(?:\/|$)/.test(path))
      .map(({ path, mode }) => `${where(path)} has mode ${mode.toString(8)}`),
    ...tapes
      .filter(([path, holds]) => !readFileSync(path).includes(holds))
      .map(([path]) => `${where(path)} is not what the agent printed`),
  ];
}

async function end({ box }: Scene): Promise<void> {
  if (box instanceof AgentBox) await box[Symbol.asyncDispose]();
  else box[Symbol.dispose]();
}
