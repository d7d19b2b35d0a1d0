/** A second user at a state directory that was made under umask 000, with nothing in the way but what Reprise itself put there. */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { AgentBox } from "../e2e/agent-box.ts";
import { CLI, collect } from "../e2e/sandbox.ts";
import { placesIn } from "./canaries.ts";

/** `nobody` on every system that has one. */
export const STRANGER = 65_534;

/** Tries everything on each path and says what worked. Runs as the stranger, so it is plain text that needs no file of ours. */
const TRIES = `
const fs = require("node:fs"), net = require("node:net"), path = require("node:path");
const worked = [];
const attempt = (what, file, act) => { try { act(); worked.push(what + " " + file); } catch {} };
const { files, directories, sockets, pids } = JSON.parse(fs.readFileSync(0, "utf8"));
for (const file of files) {
  attempt("read", file, () => fs.readFileSync(file));
  attempt("appended to", file, () => fs.appendFileSync(file, "x"));
  attempt("chmod", file, () => fs.chmodSync(file, 0o666));
  attempt("removed", file, () => fs.unlinkSync(file));
  attempt("linked", file, () => fs.linkSync(file, "/tmp/reprise-link-" + process.pid));
}
for (const directory of directories) {
  attempt("listed", directory, () => fs.readdirSync(directory));
  attempt("made a file in", directory, () => fs.writeFileSync(path.join(directory, "planted"), "x"));
  attempt("renamed", directory, () => fs.renameSync(directory, directory + "-mine"));
}
for (const pid of pids) {
  attempt("read the environment of", pid, () => fs.readFileSync("/proc/" + pid + "/environ"));
  attempt("read the memory of", pid, () => fs.openSync("/proc/" + pid + "/mem", "r"));
  attempt("listed the descriptors of", pid, () => fs.readdirSync("/proc/" + pid + "/fd"));
  attempt("signalled", pid, () => process.kill(pid, 0));
}
let open = sockets.length;
const done = () => { if (--open <= 0) { console.log(JSON.stringify(worked)); process.exit(); } };
for (const socket of sockets) {
  const client = net.createConnection(socket);
  client.once("connect", () => { worked.push("connected to " + socket); client.destroy(); done(); });
  client.once("error", done);
}
if (sockets.length === 0) done();
`;

export async function intrude(): Promise<{ readonly tried: number; readonly broken: readonly string[] }> {
  await using box = new AgentBox();
  // Everything above the state directory is open to everybody.
  const above = [box.root, box.home, box.cwd, box.bin];
  mkdirSync(box.home, { recursive: true });
  for (const directory of above) chmodSync(directory, 0o755);
  box.runbook('[agent.worker]\nengine = "claude"\nmode = "headless"\nprompt = "work @@wait:600000"\n');
  const broken: string[] = [];
  for (const args of [
    ["start", "demo", "hello"],
    ["start", "demo", "hello @@wait:600000", "--detach"],
    ["agent", "run", "worker", "--trust-cwd"],
    ["doctor"],
  ])
    broken.push(...(await openly(box, args)));
  const [handle = ""] = box.runDirectories().map((path) => path.slice(-8));
  const bundle = join(box.root, "bundle.tar.gz");
  broken.push(...(await openly(box, ["export", handle, "--output", bundle])));
  const places = [
    ...placesIn(box.state),
    { path: box.state, mode: statSync(box.state).mode & 0o777, isFile: false },
  ];
  // The engine's own store is the engine's.
  const ours = places.filter(({ path }) => !path.startsWith(join(box.state, "demo")));
  for (const { path, mode } of ours)
    if ((mode & 0o077) !== 0) broken.push(`${relative(box.root, path)} has mode ${mode.toString(8)}`);
  const sockets = ours.map(({ path }) => path).filter((path) => statSync(path).isSocket());
  const pids = box.leftovers();
  broken.push(
    ...tokensIn(
      pids,
      ours.map(({ path }) => path),
    ),
  );
  const wish = {
    files: [...ours.filter(({ isFile }) => isFile).map(({ path }) => path), bundle],
    directories: ours.map(({ path }) => path).filter((path) => statSync(path).isDirectory()),
    sockets,
    pids,
  };
  if (sockets.length < 3) broken.push(`only ${sockets.length} sockets were there to be tried`);
  const thief = spawn(process.execPath, ["-e", TRIES], {
    uid: STRANGER,
    gid: STRANGER,
    cwd: "/",
    stdio: "pipe",
  });
  thief.stdin.end(JSON.stringify(wish));
  const { code, stdout, stderr } = await collect(thief);
  if (code !== 0) broken.push(`the second user could not be asked: ${stderr.slice(0, 300)}`);
  else broken.push(...(JSON.parse(stdout) as string[]).map((text) => `a second user ${text}`));
  const tried = wish.files.length * 5 + wish.directories.length * 3 + sockets.length + pids.length * 4;
  return { tried, broken };
}

async function openly(box: AgentBox, args: readonly string[]): Promise<readonly string[]> {
  const words = ["-c", 'umask 000; exec "$0" "$@"', process.execPath, CLI, ...args];
  const { code, stderr } = await collect(
    spawn("sh", words, { cwd: box.cwd, env: box.env(), stdio: ["ignore", "pipe", "pipe"] }),
  );
  return code === 0 || args[0] === "doctor"
    ? []
    : [`${args.join(" ")}: exit ${code}: ${stderr.slice(0, 300)}`];
}

/** Arguments are for everybody to read. */
function tokensIn(pids: readonly number[], paths: readonly string[]): string[] {
  const tokens = paths
    .filter((path) => /\/run\/(?:d\.token|h-\w+\.json)$/.test(path))
    .map((path) => readFileSync(path, "utf8").trim())
    .flatMap((text) => (text.startsWith("{") ? [(JSON.parse(text) as { token: string }).token] : [text]));
  const shown = pids.map((pid) =>
    existsSync(`/proc/${pid}/cmdline`) ? readFileSync(`/proc/${pid}/cmdline`, "utf8") : "",
  );
  return tokens.some((token) => shown.some((words) => words.includes(token)))
    ? ["a token stands in the arguments of a process"]
    : [];
}
