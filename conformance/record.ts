/**
 * `--record`: turns what an engine really printed into a fixture of its profile, scrubbed of paths, ports, keys and ids,
 * with the events that the profile reads from it. The difference in git is what a new version of the engine changed.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Exit, Stream } from "../src/core/events.ts";
import { builtInEngine } from "../src/engines/engines.ts";
import type { Shown } from "../src/certify/checks.ts";
import type { LabPlace } from "../src/certify/lab.ts";
import { KEY } from "../src/certify/labs.ts";
import type { PinnedLab } from "./pinned.ts";

/** The moment that the tests of the fixtures call now. */
const NOW = Date.parse("2026-11-15T02:30:00Z");
const ENGINES = fileURLToPath(new URL("../src/engines/", import.meta.url));
const MODULES = fileURLToPath(new URL("./engines/node_modules", import.meta.url));

export function record(name: string, lab: PinnedLab, place: LabPlace, shown: Shown): void {
  const folder = join(shown.runDirectory, "attempts", String(shown.attempts));
  const read = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : "";
  const about = { lab, root: place.root, session: shown.session.value, nowMs: Date.now() };
  const texts = { stdout: scrub(read("stdout.log"), about), stderr: scrub(read("stderr.log"), about) };
  const { exit } = JSON.parse(read("meta.json")) as { exit: Exit };
  const target = join(ENGINES, `${lab.engine}.fixtures`);
  mkdirSync(target, { recursive: true });
  const save = (kind: string, content: string) =>
    writeFileSync(join(target, `${lab.fixtures}${name}.${kind}`), content);
  save("stdout", texts.stdout);
  if (texts.stderr !== "") save("stderr", texts.stderr);
  save("exit.json", `${JSON.stringify(exit)}\n`);
  save("expected.json", `${JSON.stringify(understood(lab.engine, texts, exit), null, 2)}\n`);
}

/** What the profile of an engine reads from an attempt. */
export function understood(id: string, texts: Readonly<Record<Stream, string>>, exit: Exit) {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(`no such engine: ${id}`);
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

interface Scrub {
  readonly lab: Pick<PinnedLab, "sample">;
  readonly root: string;
  readonly session: string | null;
  /** When the attempt ended, in ms. */
  readonly nowMs: number;
}

/**
 * What differs from one recording to the next, made the same: paths, ports, keys, ids, times, durations, and lines about
 * work in the background, which come when they come.
 */
export function scrub(text: string, { lab, root, session, nowMs }: Scrub): string {
  const slug = (path: string) => path.replaceAll(/[^a-zA-Z0-9]/g, "-");
  const named = text
    .replaceAll(root, "/home/user/lab")
    .replaceAll(slug(root), "-home-user-lab")
    .replaceAll(MODULES, "/opt/engines")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:8080")
    .replaceAll(KEY, "test-key")
    .replaceAll(session ?? lab.sample, lab.sample);
  return numbered(timed(named, nowMs), lab.sample)
    .split("\n")
    .filter((line) => !BACKGROUND.test(line))
    .join("\n");
}

/** OpenCode's log of what it does beside the turn. */
const BACKGROUND =
  /^timestamp=\S+ level=INFO .*message=("project copy|"watcher backend|tracking|initialized|"booting location|"shell tool using|"?init\b)/;

/** Times keep their distance from the end of the attempt, in steps of ten minutes. */
function timed(text: string, nowMs: number): string {
  const step = 600_000;
  const moved = (ms: number) => NOW + Math.round((ms - nowMs) / step) * step;
  const iso = (time: string) => new Date(moved(Date.parse(time))).toISOString();
  return text
    .replaceAll(/\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, iso)
    .replaceAll(/\b20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z/g, (stamp) =>
      iso(stamp.replace(/T(\d\d)-(\d\d)-(\d\d)-/, "T$1:$2:$3.")).replaceAll(/[:.]/g, "-"),
    )
    .replaceAll(/\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, (date) =>
      new Date(moved(Date.parse(date))).toUTCString(),
    )
    .replaceAll(/\b\d{1,2}:\d\d [AP]M\b/g, "3:30 AM")
    .replaceAll(/\b1[789]\d{11}\b/g, (ms) => String(moved(Number(ms))))
    .replaceAll(/\b1[789]\d{8}\b/g, (seconds) => String(moved(Number(seconds) * 1000) / 1000))
    .replaceAll(/"(\w*(?:duration|ttft|elapsed|_ms)\w*)":\s*[\d.]+/g, '"$1":100')
    .replaceAll(/\bduration=\d+/g, "duration=100");
}

/** Ids get numbers in the order in which they come. */
function numbered(text: string, sample: string): string {
  const seen = new Map<string, number>();
  const number = (id: string) => {
    if (!seen.has(id)) seen.set(id, seen.size + 1);
    return String(seen.get(id));
  };
  return text
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, (id) =>
      id === sample ? id : `00000000-0000-4000-8000-${number(id).padStart(12, "0")}`,
    )
    .replaceAll(/\b(msg|prt|evt|ses)_[0-9a-zA-Z]{20,}\b/g, (id: string, kind: string) =>
      id === sample ? id : `${kind}_${number(id).padStart(26, "0")}`,
    )
    .replaceAll(/\b(req_msg|msg|msg_resp|resp|call_resp)_\d{1,12}\b/g, "$1_00000001")
    .replaceAll(/\b[0-9a-f]{40}\b/g, "0".repeat(40))
    .replaceAll(/\brun=[0-9a-f]{8}\b/g, "run=00000000")
    .replaceAll(/\bslug=[a-z]+-[a-z]+\b/g, "slug=some-slug")
    .replaceAll(/\/cc-socks\/\d+\.sock/g, "/cc-socks/1.sock")
    .replaceAll(/\b((?:local|remote)Port: )\d+/g, "$18080")
    .replaceAll(/\b(bytes(?:Written|Read): )\d+/g, "$11000")
    .replaceAll(/"(pre_tokens|post_tokens)":\d+/g, '"$1":100')
    .replaceAll(/\b(pid[=:]\s*)\d+/gi, "$11");
}
