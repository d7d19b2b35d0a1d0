/**
 * `--record`: turns what an engine really printed into a fixture of its profile, scrubbed of paths, ports, keys and ids,
 * with the events that the profile reads from it. The difference in git is what a new version of the engine changed.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Exit, Stream } from "../src/core/events.ts";
import { findEngine } from "../src/engines/engines.ts";
import type { Shown } from "./checks.ts";
import { KEY, type Lab, type Place } from "./labs.ts";

/** The moment that the tests of the fixtures call now. */
const NOW = Date.parse("2026-11-15T02:30:00Z");
const ENGINES = fileURLToPath(new URL("../src/engines/", import.meta.url));
const MODULES = fileURLToPath(new URL("./engines/node_modules", import.meta.url));

export function record(name: string, lab: Lab, place: Place, shown: Shown): void {
  const folder = join(shown.runDirectory, "attempts", String(shown.attempts));
  const read = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : "";
  const scrub = (text: string) => scrubbed(text, lab, place, shown.session.value);
  const texts = { stdout: scrub(read("stdout.log")), stderr: scrub(read("stderr.log")) };
  const { exit } = JSON.parse(read("meta.json")) as { exit: Exit };
  const target = join(ENGINES, `${lab.engine}.fixtures`);
  mkdirSync(target, { recursive: true });
  const save = (kind: string, content: string) =>
    writeFileSync(join(target, `${lab.fixtures}${name}.${kind}`), content);
  save("stdout", texts.stdout);
  if (texts.stderr !== "") save("stderr", texts.stderr);
  save("exit.json", `${JSON.stringify(exit)}\n`);
  save("expected.json", `${JSON.stringify(understood(lab, texts, exit), null, 2)}\n`);
}

function understood(lab: Lab, texts: Readonly<Record<Stream, string>>, exit: Exit) {
  const engine = findEngine(lab.engine);
  if (engine === undefined) throw new Error(`no such engine: ${lab.engine}`);
  const reader = engine.reader(() => NOW);
  const lines = (text: string) =>
    text
      .replace(/\n$/, "")
      .split("\n")
      .map((line) => line.replace(/\r$/, ""));
  const of = (stream: Stream) =>
    (texts[stream] === "" ? [] : lines(texts[stream])).flatMap((line) => reader.line(stream, line));
  const events = [...of("stdout"), ...of("stderr"), ...reader.end(exit)];
  return { events, explained: engine.explainExit(exit, texts.stderr, NOW) };
}

function scrubbed(text: string, lab: Lab, place: Place, session: string | null): string {
  const slug = (path: string) => path.replaceAll(/[^a-zA-Z0-9]/g, "-");
  return text
    .replaceAll(place.root, "/home/user/lab")
    .replaceAll(slug(place.root), "-home-user-lab")
    .replaceAll(MODULES, "/opt/engines")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:8080")
    .replaceAll(KEY, "test-key")
    .replaceAll(session ?? lab.sample, lab.sample);
}
