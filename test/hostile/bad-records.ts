/** Input that is odd but usable, and our records with damage: nothing else may suffer from them. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CLI, type Result } from "../e2e/sandbox.ts";
import type { Ground } from "./bad-rows.ts";

export interface Trial {
  readonly name: string;
  /** The mistake; null: none. */
  readonly attempt: (ground: Ground) => Promise<string | null>;
}

function unclean({ code, stderr }: Result): string | null {
  const stack = /\n\s+at .*:\d+:\d+|this is a bug/.test(stderr);
  return code === 70 || code === null || stack
    ? `exit ${code}: ${JSON.stringify(stderr.slice(0, 300))}`
    : null;
}

/** 91 to 102: what somebody did to `run.json`. */
const damages: Readonly<Record<string, (text: string) => string | Buffer>> = {
  ...Object.fromEntries(
    [0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99].map((part) => [
      `91 cut to ${part * 100} %`,
      (text: string) => text.slice(0, Math.floor(text.length * part)),
    ]),
  ),
  "91 without its last byte": (text) => text.trimEnd().slice(0, -1),
  "92 two documents": (text) => text + text,
  "93 a key twice": (text) => text.replace("{", '{"handle":"deadbeef",'),
  "94 a newer version": (text) => text.replace(/"v":\s*\d+/, '"v":99'),
  "95 pid 1": (text) => text.replaceAll(/"pid":\s*\d+/g, '"pid":1'),
  "95 a pid below zero": (text) => text.replaceAll(/"pid":\s*\d+/g, '"pid":-1'),
  "95 our own pid": (text) => text.replaceAll(/"pid":\s*\d+/g, `"pid":${process.pid}`),
  "95 a huge pid": (text) => text.replaceAll(/"pid":\s*\d+/g, '"pid":99999999999999999999'),
  "96 a path outside": (text) => text.replaceAll(/"runDirectory":\s*"[^"]*"/g, '"runDirectory":"/etc"'),
  "97 100,000 nested": () => `{"v":1,"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
  "98 numbers as strings": (text) => text.replaceAll(/: ?(\d+)([,}\n])/g, ':"$1"$2'),
  "99 far in the future": (text) => text.replaceAll(/"2\d{3}-/g, '"9999-'),
  "99 no time at all": (text) => text.replaceAll(/"2\d{3}-[^"]*"/g, '"soon"'),
  "100 control characters": (text) => text.replaceAll("hello", "\\u001b]0;owned\\u0007\\u202e"),
  "101 5 MB": (text) => text + " ".repeat(5 * 1024 * 1024),
  "not JSON": () => Buffer.from([0xff, 0xfe, 0x00]),
  "another kind": () => "[1,2,3]",
  null: () => "null",
};

function damaged(name: string, damage: (text: string) => string | Buffer): Trial {
  return {
    name: `run.json: ${name}`,
    attempt: (ground) => withVictim(ground, (path, text) => writeFileSync(path, damage(text))),
  };
}

/** Another run of the same state directory is damaged, looked at from all sides, and healed again. */
async function withVictim(
  { box, handle }: Ground,
  damage: (path: string, text: string) => void,
): Promise<string | null> {
  const victim = await box.json(["start", "demo", "hello"]);
  const path = join(String(victim["runDirectory"]), "run.json");
  const text = readFileSync(path, "utf8");
  damage(path, text);
  for (const args of [
    ["doctor", "--rebuild-index"],
    ["list", "--json"],
    ["show", String(victim["handle"])],
    ["stop", String(victim["handle"])],
  ]) {
    const result = await box.run(args);
    const wrong = unclean(result);
    if (wrong !== null) return `${args.join(" ")}: ${wrong}`;
    if (args[0] === "list" && !result.stdout.includes(handle)) return "the other run is not listed any more";
  }
  rmSync(String(victim["runDirectory"]), { recursive: true });
  return null;
}

const records: readonly Trial[] = [
  ...Object.entries(damages).map(([name, damage]) => damaged(name, damage)),
  {
    name: "run.json: 102 a symlink",
    attempt: (ground) =>
      withVictim(ground, (path, text) => {
        writeFileSync(join(ground.box.root, "elsewhere.json"), text);
        rmSync(path);
        symlinkSync(join(ground.box.root, "elsewhere.json"), path);
      }),
  },
  {
    name: "run.json: a FIFO",
    attempt: (ground) =>
      withVictim(ground, (path) => {
        rmSync(path);
        spawnSync("mkfifo", [path]);
      }),
  },
];

/** 16 to 19: used as it is, and nothing in it is run. */
const directories: readonly Trial[] = [
  "#(touch owned)",
  "a\nb",
  "$(touch owned)",
  "-x",
  "`touch owned`",
  "a;b",
].map((name) => ({
  name: `16–19 --cwd ${JSON.stringify(name)}`,
  attempt: async ({ box }) => {
    mkdirSync(join(box.cwd, name), { recursive: true });
    const result = await box.run(["start", "demo", "hello", `--cwd=${join(box.cwd, name)}`]);
    const owned = [box.cwd, join(box.cwd, name)].some((place) => existsSync(join(place, "owned")));
    return owned
      ? "something in it was run"
      : result.code === 0
        ? null
        : `exit ${result.code}: ${result.stderr}`;
  },
}));

/** 49 to 52: an agent gets exactly the given message. */
const told: readonly Trial[] = [
  "-p --settings={}",
  "-",
  ";",
  "x;",
  "C-c Enter #{pane_title} #(touch owned)",
  "a\nb\r\nc",
  "\u001b[201~rm",
].map((message) => ({
  name: `49–53 the message ${JSON.stringify(message)}`,
  attempt: async ({ box, handle }) => {
    const result = await box.run(["resume", handle, "--stdin"], { stdin: message });
    if (result.code !== 0) return `exit ${result.code}: ${result.stderr}`;
    const heard = box.journalEntries().findLast(({ event }) => event === "message")?.["text"];
    return heard === message ? null : `the agent heard ${JSON.stringify(heard)}`;
  },
}));

const surroundings: readonly Trial[] = [
  ...[
    { COLUMNS: "0" },
    { COLUMNS: "abc" },
    { COLUMNS: "-5" },
    { TERM: "dumb" },
    { TERM: "" },
    { NO_COLOR: "1" },
    { TZ: "Nowhere/Nothing" },
    { LANG: "C", LC_ALL: "C" },
    { XDG_RUNTIME_DIR: "/nowhere" },
    { NODE_OPTIONS: "--max-old-space-size=512" },
  ].map((env): Trial => ({
    name: `27 ${JSON.stringify(env)}`,
    attempt: async ({ box, handle }) => {
      const result = await box.run(["list"], { env: { ...env } });
      return result.code === 0 && result.stdout.includes(handle)
        ? null
        : `exit ${result.code}: ${result.stderr}`;
    },
  })),
  {
    name: "26 nobody reads any more",
    attempt: async ({ box }) => {
      const line = `'${process.execPath}' '${CLI}' list; echo "$?" >&2`;
      const { stderr } = spawnSync("sh", ["-c", `{ ${line}; } | true`], {
        cwd: box.cwd,
        env: box.env(),
        encoding: "utf8",
      });
      return /^(0|141)\n$/.test(stderr) ? null : JSON.stringify(stderr);
    },
  },
  {
    name: "12 bytes in an argument that are no UTF-8",
    attempt: async ({ box }) => {
      const line = `'${process.execPath}' '${CLI}' show "$(printf '\\377\\376')"; echo "$?" >&2`;
      const { stderr } = spawnSync("sh", ["-c", line], { cwd: box.cwd, env: box.env(), encoding: "utf8" });
      return /Argument 2 is not valid UTF-8[^]*\n2\n$/.test(stderr) ? null : JSON.stringify(stderr);
    },
  },
];

export const trials: readonly Trial[] = [...records, ...directories, ...told, ...surroundings];
