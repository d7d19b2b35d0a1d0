/** Traps: what somebody, or a mistake, may have put where Reprise keeps or looks for something. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { AgentBox } from "../e2e/agent-box.ts";
import { collect } from "../e2e/sandbox.ts";
import { STRANGER } from "./intruder.ts";

export interface Plant {
  readonly name: string;
  readonly needsRoot?: true;
  /** A run is there before the trap is laid. */
  readonly after?: true;
  lay(trap: Trap): void;
  readonly args: readonly string[] | ((handle: string, runDirectory: string) => readonly string[]);
  readonly env?: (trap: Trap) => Record<string, string | undefined>;
  readonly exits: readonly number[];
  readonly says?: RegExp;
}

export interface Trap {
  readonly box: AgentBox;
  readonly state: string;
  readonly runDirectory: string;
  /** Must stay as it is. */
  readonly victim: string;
  /** A directory in which nothing may appear. */
  readonly elsewhere: string;
}

const DEADLINE_MS = 60_000;
const DENIED = [8];
const START = ["start", "demo", "hello", "--quiet"] as const;
const DETACH = ["start", "demo", "hello", "--detach"] as const;

const pipe = (path: string) => void spawnSync("mkfifo", [path]);
/** In the place of the existing entry. */
const replace = (path: string, put: (path: string) => void) => {
  rmSync(path, { recursive: true, force: true });
  put(path);
};
const logs =
  (...more: string[]) =>
  (handle: string) => ["logs", handle, ...more];
/** Longer than a socket's path may be. */
const deep = ({ box }: Trap) => join(box.root, "d".repeat(90), "state");
const longHome = (runtime: (trap: Trap) => string) => (trap: Trap) => ({
  REPRISE_HOME: deep(trap),
  XDG_RUNTIME_DIR: runtime(trap),
});

const STATE: readonly Plant[] = [
  {
    name: "the state directory is a link",
    lay: ({ state, elsewhere }) => symlinkSync(elsewhere, state),
    args: START,
    exits: DENIED,
  },
  {
    name: "the state directory is a file",
    lay: ({ state }) => writeFileSync(state, ""),
    args: START,
    exits: [7, 8],
  },
  { name: "the state directory is a pipe", lay: ({ state }) => pipe(state), args: START, exits: [7, 8] },
  {
    name: "the state directory is another user's",
    needsRoot: true,
    lay({ state }) {
      mkdirSync(state);
      chownSync(state, STRANGER, STRANGER);
    },
    args: START,
    exits: DENIED,
  },
  {
    name: "the state directory is open to all",
    after: true,
    lay: ({ state }) => chmodSync(state, 0o777),
    args: ["list"],
    exits: [0],
    says: /was open to other users/,
  },
  {
    name: "runs is a link",
    lay({ state, elsewhere }) {
      mkdirSync(state);
      symlinkSync(elsewhere, join(state, "runs"));
    },
    args: START,
    exits: DENIED,
  },
  ...["index.db", "index.db-wal", "reserve", "versions.json", "trusted.json"].flatMap((name): Plant[] => [
    {
      name: `${name} is a link`,
      after: true,
      lay: ({ state, victim }) => replace(join(state, name), (path) => symlinkSync(victim, path)),
      args: START,
      exits: [0, 5, 7, 8],
    },
    {
      name: `${name} is a pipe`,
      after: true,
      lay: ({ state }) => replace(join(state, name), pipe),
      args: START,
      exits: [0, 5, 7, 8],
    },
  ]),
  {
    name: "demo is a link",
    after: true,
    lay: ({ state, elsewhere }) => replace(join(state, "demo"), (path) => symlinkSync(elsewhere, path)),
    args: START,
    exits: DENIED,
  },
  ...["run", "settings", "issues", "reviews", "workspaces"].map((name): Plant => ({
    name: `${name} is a link`,
    after: true,
    lay: ({ state, elsewhere }) => replace(join(state, name), (path) => symlinkSync(elsewhere, path)),
    args: name === "run" ? DETACH : START,
    exits: name === "run" ? DENIED : [0, 8],
  })),
];

/** In the way of a run that goes on. */
const ATTEMPTS: readonly [name: string, lay: Plant["lay"], needs?: Pick<Plant, "needsRoot">][] = [
  [
    "attempts is a link",
    ({ runDirectory, elsewhere }) =>
      replace(join(runDirectory, "attempts"), (path) => symlinkSync(elsewhere, path)),
  ],
  ["attempts may be written by all", ({ runDirectory }) => chmodSync(join(runDirectory, "attempts"), 0o777)],
  [
    "the next attempt is a link",
    ({ runDirectory, elsewhere }) => symlinkSync(elsewhere, join(runDirectory, "attempts/2")),
  ],
  [
    "the next attempt is another user's",
    ({ runDirectory }) => {
      mkdirSync(join(runDirectory, "attempts/2"));
      chownSync(join(runDirectory, "attempts/2"), STRANGER, STRANGER);
    },
    { needsRoot: true },
  ],
];
const CONTINUING: readonly Plant["args"][] = [
  (handle) => ["resume", handle, "go on"],
  (handle) => ["resume", "--detach", handle, "go on"],
  (handle, runDirectory) => ["start", "demo", "--run-dir", runDirectory, "go on"],
];

const RUNS: readonly Plant[] = [
  {
    name: "a run directory is a link",
    after: true,
    lay({ runDirectory, elsewhere }) {
      renameSync(runDirectory, join(elsewhere, "run"));
      symlinkSync(join(elsewhere, "run"), runDirectory);
      // The target was ours before.
      rmSync(join(elsewhere, "run"), { recursive: true });
    },
    args: logs(),
    exits: [3, 8],
  },
  {
    name: "a run directory is another user's",
    needsRoot: true,
    after: true,
    lay: ({ runDirectory }) => chownSync(runDirectory, STRANGER, STRANGER),
    args: (handle) => ["resume", handle, "go on"],
    exits: DENIED,
  },
  {
    name: "a run directory may be written by all",
    after: true,
    lay: ({ runDirectory }) => chmodSync(runDirectory, 0o777),
    args: (handle) => ["resume", handle, "go on"],
    exits: DENIED,
  },
  ...ATTEMPTS.flatMap(([name, lay, needsRoot]) =>
    CONTINUING.map((args): Plant => ({ name, after: true, lay, args, exits: DENIED, ...needsRoot })),
  ),
  ...["meta.json", "receipt.json", "stdout.log", "events.jsonl", "timing.jsonl"].map((name): Plant => ({
    name: `${name} of the next attempt is a link`,
    after: true,
    lay({ runDirectory, victim }) {
      mkdirSync(join(runDirectory, "attempts/2"), { mode: 0o700 });
      symlinkSync(victim, join(runDirectory, "attempts/2", name));
    },
    args: (handle) => ["resume", handle, "go on"],
    exits: [0, 8],
  })),
  {
    name: "escrow is a link",
    after: true,
    lay: ({ runDirectory, elsewhere }) =>
      replace(join(runDirectory, "escrow"), (path) => symlinkSync(elsewhere, path)),
    args: (handle) => ["resume", handle, "go on"],
    exits: [0, 8],
  },
  ...["show", "logs", "export", "rm"].map((command): Plant => ({
    name: `attempts is a link: ${command}`,
    after: true,
    lay: ({ runDirectory, elsewhere }) =>
      replace(join(runDirectory, "attempts"), (path) => symlinkSync(elsewhere, path)),
    args: (handle) => [command, handle],
    exits: command === "logs" ? DENIED : [0, 8],
  })),
  ...(["pty-output.log", "stdout.log", "events.jsonl"] as const).flatMap((name): Plant[] => {
    const stream = name.replace(/\..*/, "");
    const at = ({ runDirectory }: Trap) => join(runDirectory, "attempts/1", name);
    return [
      {
        name: `${name} is a link`,
        after: true,
        lay: (trap) => replace(at(trap), (path) => symlinkSync(trap.victim, path)),
        args: logs("--stream", stream),
        exits: DENIED,
      },
      {
        name: `${name} is a pipe`,
        after: true,
        lay: (trap) => replace(at(trap), pipe),
        args: logs("--stream", stream),
        exits: DENIED,
      },
    ];
  }),
  ...["run.json", "attempts/1/meta.json"].flatMap((name): Plant[] => [
    {
      name: `${name} is a link`,
      after: true,
      lay: ({ runDirectory, victim }) =>
        replace(join(runDirectory, name), (path) => symlinkSync(victim, path)),
      args: (handle) => ["show", handle],
      exits: [0, 5, 8],
    },
    {
      name: `${name} is a pipe`,
      after: true,
      lay: ({ runDirectory }) => replace(join(runDirectory, name), pipe),
      args: (handle) => ["resume", handle, "go on"],
      exits: [0, 5, 8],
    },
  ]),
];

const RUNTIME: readonly Plant[] = [
  ...["d.sock", "d.token", "d.log", "d.lock", "holders.log"].flatMap((name): Plant[] => [
    {
      name: `run/${name} is a pipe`,
      after: true,
      lay({ state }) {
        mkdirSync(join(state, "run"), { recursive: true, mode: 0o700 });
        pipe(join(state, "run", name));
      },
      args: name === "holders.log" ? DETACH : ["daemon", "start"],
      exits: [0, 4, 7, 8],
    },
    {
      name: `run/${name} is a link`,
      after: true,
      lay({ state, victim }) {
        mkdirSync(join(state, "run"), { recursive: true, mode: 0o700 });
        symlinkSync(victim, join(state, "run", name));
      },
      args: name === "holders.log" ? DETACH : ["daemon", "start"],
      exits: [0, 4, 7, 8],
    },
  ]),
  {
    name: "run is another user's",
    needsRoot: true,
    after: true,
    lay({ state }) {
      mkdirSync(join(state, "run"), { recursive: true });
      chownSync(join(state, "run"), STRANGER, STRANGER);
    },
    args: DETACH,
    exits: DENIED,
  },
  {
    name: "run may be written by all",
    after: true,
    lay({ state }) {
      mkdirSync(join(state, "run"), { recursive: true });
      chmodSync(join(state, "run"), 0o777);
    },
    args: DETACH,
    exits: DENIED,
  },
  {
    name: "the runtime directory is another user's",
    needsRoot: true,
    lay: ({ elsewhere }) => chownSync(elsewhere, STRANGER, STRANGER),
    env: longHome(({ elsewhere }) => elsewhere),
    args: DETACH,
    exits: [2],
    says: /bytes/,
  },
  {
    name: "the runtime directory is a link",
    lay: ({ box, elsewhere }) => symlinkSync(elsewhere, join(box.root, "xdg")),
    env: longHome(({ box }) => join(box.root, "xdg")),
    args: DETACH,
    exits: [2],
  },
  {
    name: "the runtime directory may be written by all",
    lay: ({ elsewhere }) => chmodSync(elsewhere, 0o777),
    env: longHome(({ elsewhere }) => elsewhere),
    args: DETACH,
    exits: [2],
  },
  ...["relative/path", "", "/nowhere/at/all", `/${"x".repeat(200)}`].map((path): Plant => ({
    name: `the runtime directory is ${JSON.stringify(path.slice(0, 20))}`,
    lay: () => {},
    env: longHome(() => path),
    args: DETACH,
    exits: [2],
  })),
  {
    name: "a link waits in the runtime directory under our name",
    lay({ box, elsewhere }) {
      const runtime = join(box.root, "xdg");
      mkdirSync(runtime, { mode: 0o700 });
      // Every name that we could choose there.
      const home = deep({ box } as Trap);
      symlinkSync(elsewhere, join(runtime, `reprise-${digest(home)}`));
    },
    env: longHome(({ box }) => join(box.root, "xdg")),
    args: DETACH,
    exits: DENIED,
  },
];

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

const CONFIG: readonly Plant[] = [
  {
    name: "the user's config is a pipe",
    lay({ box }) {
      mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
      pipe(join(box.home, ".config/reprise/config.toml"));
    },
    args: START,
    exits: [2],
  },
  {
    name: "the project's config is a pipe",
    lay: ({ box }) => pipe(join(box.cwd, "reprise.toml")),
    args: START,
    exits: [2],
  },
  {
    name: "a runbook is a pipe",
    lay({ box }) {
      mkdirSync(join(box.cwd, "runbooks"));
      pipe(join(box.cwd, "runbooks/x.toml"));
    },
    args: ["runbook", "check"],
    exits: [1, 2, 3],
  },
  {
    name: "the message is a pipe",
    lay: ({ box }) => pipe(join(box.cwd, "m")),
    args: ["start", "demo", "--message-file", "m"],
    exits: [2],
  },
  {
    name: "root by sudo in another user's home",
    needsRoot: true,
    lay: ({ box }) => chownSync(box.home, STRANGER, STRANGER),
    env: () => ({ REPRISE_HOME: undefined, SUDO_UID: String(STRANGER) }),
    args: START,
    exits: DENIED,
    says: /home of another user/,
  },
  {
    name: "root without sudo in a home that is not root's",
    needsRoot: true,
    lay: ({ box }) => chownSync(box.home, STRANGER, STRANGER),
    env: () => ({ REPRISE_HOME: undefined }),
    args: START,
    exits: [0],
  },
  {
    name: "root by sudo with a state directory of its own",
    needsRoot: true,
    lay: ({ box }) => chownSync(box.home, STRANGER, STRANGER),
    env: () => ({ SUDO_UID: String(STRANGER) }),
    args: START,
    exits: [0],
  },
];

export const PLANTS: readonly Plant[] = [...STATE, ...RUNS, ...RUNTIME, ...CONFIG];

/** What was wrong, one sentence each. */
export async function tryPlant(plant: Plant): Promise<string[]> {
  await using box = new AgentBox();
  const elsewhere = join(box.root, "elsewhere");
  const victim = join(box.root, "victim");
  mkdirSync(elsewhere);
  writeFileSync(victim, "as it was");
  if (plant.after === true) await box.run(START);
  const [runDirectory = ""] = box.runDirectories();
  const trap: Trap = { box, state: box.state, runDirectory, victim, elsewhere };
  plant.lay(trap);
  const args =
    typeof plant.args === "function" ? plant.args(runDirectory.slice(-8), runDirectory) : plant.args;
  const child = box.spawn(args, { env: plant.env?.(trap) ?? {} });
  child.stdin?.end();
  const late = setTimeout(() => child.kill("SIGKILL"), DEADLINE_MS);
  const { code, signal, stdout, stderr } = await collect(child);
  clearTimeout(late);
  const broken: string[] = [];
  if (signal !== null) broken.push(`it hangs`);
  else if (!plant.exits.includes(code ?? -1))
    broken.push(`exit ${code}: ${(stderr || stdout).slice(0, 300)}`);
  if (plant.says !== undefined && !plant.says.test(stderr)) broken.push(`it says ${stderr.slice(0, 200)}`);
  if (/^\s+at .*:\d+:\d+/m.test(stderr)) broken.push("it shows a stack");
  if (readFileSync(victim, "utf8") !== "as it was") broken.push("what was behind the link was changed");
  if (readdirSync(elsewhere).length > 0)
    broken.push(`it wrote ${readdirSync(elsewhere).join(", ")} elsewhere`);
  return broken.map((text) => `${plant.name}: ${text}`);
}
