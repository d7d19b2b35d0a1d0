/** What the part `web` measures on: a state directory, the built server, and clients of it that may do nothing but watch. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { CLI, environment, makeRoot } from "./part.ts";

/** Waits for its file, prints so many bytes, writes how many milliseconds that took, and waits for its end. */
const PRINTER = `#!/usr/bin/perl
use Time::HiRes qw(sleep time);
my ($bytes, $go) = @ARGV;
$| = 1;
print qq({"type":"init","session_id":"s-$$"}\\n);
$| = 0;
sleep 0.02 until -e $go;
my $line = ("x" x 98) . "\\n";
my $begin = time;
for (my $at = 0; $at < $bytes; $at += 100) { print $line; }
$| = 1;
my $took = (time - $begin) * 1000;
open(my $out, ">", "$go.part"); print $out $took; close $out; rename "$go.part", "$go.took";
sleep 0.05 while -e $go;
`;

const CONFIG = (program: string) => `
[engines.printer]
program = "${program}"
start = []
resume = ["{session}"]
session = { field = "session_id", format = "s-[0-9]+" }
[engines.printer.events]
session = "type=init"
text = "type=message : text"
done = "type=result"
`;

export class Site implements AsyncDisposable {
  readonly root = makeRoot();
  readonly env = environment(this.root, "web");
  readonly state = this.env["REPRISE_HOME"] ?? "";
  readonly project = join(this.root, "project");
  #server: ChildProcess | null = null;
  #url = "";
  #token = "";

  constructor() {
    const config = join(this.env["HOME"] ?? "", ".config", "reprise");
    const printer = join(this.root, "printer");
    for (const folder of [config, this.project, join(this.state, "runs")])
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(printer, PRINTER);
    chmodSync(printer, 0o755);
    writeFileSync(join(config, "config.toml"), CONFIG(printer));
  }

  get pid(): number {
    return this.#server?.pid ?? 0;
  }

  /** Milliseconds from the start of `reprise web` until it has answered this request. */
  async serve(path: string): Promise<number> {
    const made = this.reprise("web", "token", "--name", `bench-${Date.now()}`, "--json");
    this.#token = (JSON.parse(made) as { token: string }).token;
    const begin = performance.now();
    const child = spawn(process.execPath, [CLI, "web", "--no-open", "--json"], {
      ...{ cwd: this.project, env: this.env, stdio: ["ignore", "pipe", "inherit"] },
    });
    this.#server = child;
    let text = "";
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (text.includes("\n")) break;
    }
    this.#url = (JSON.parse(text) as { url: string }).url.replace(/\/$/, "");
    await this.get(path);
    return performance.now() - begin;
  }

  async stopServer(): Promise<void> {
    const child = this.#server;
    this.#server = null;
    if (child === null || child.exitCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  async get(path: string): Promise<Record<string, any>> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const answer = await fetch(`${this.#url}/api/v1${path}`, { headers });
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Record<string, any>;
  }

  async socket(path: string): Promise<WebSocket> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const ws = new WebSocket(`${this.#url.replace("http", "ws")}/api/v1${path}`, { headers });
    await once(ws, "open");
    return ws;
  }

  reprise(...args: string[]): string {
    const { stdout, status, stderr } = spawnSync(process.execPath, [CLI, ...args], {
      ...{ cwd: this.project, env: this.env, encoding: "utf8", timeout: 60_000 },
    });
    if (status !== 0) throw new Error(`reprise ${args.join(" ")}: exit ${status}\n${stderr}`);
    return stdout;
  }

  /** The handle of a run in the background. */
  detach(...args: string[]): string {
    return (JSON.parse(this.reprise("start", "--detach", "--json", ...args)) as { handle: string }).handle;
  }

  runDirectory(handle: string): string {
    const name = readdirSync(join(this.state, "runs")).find((one) => one.endsWith(handle));
    return join(this.state, "runs", name ?? handle);
  }

  /** Everything that has this state directory ends: servers, holders, agents. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopServer();
    for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one)))
      if (isOurs(name, this.state)) process.kill(Number(name), "SIGKILL");
    await sleep(200);
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

function isOurs(pid: string, state: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`REPRISE_HOME=${state}\0`);
  } catch {
    return false;
  }
}

/** An agent on a terminal that prints when it is told to. */
export class Printer {
  readonly handle: string;
  readonly #go: string;
  readonly #site: Site;

  constructor(site: Site, bytes: number) {
    this.#site = site;
    this.#go = join(site.root, `go-${performance.now()}`);
    this.handle = site.detach("printer", "--mode", "pty", "--", String(bytes), this.#go);
  }

  /** The agent's own milliseconds. */
  async print(): Promise<number> {
    writeFileSync(this.#go, "");
    await until("the agent has printed", () => existsSync(`${this.#go}.took`));
    return Number(readFileSync(`${this.#go}.took`, "utf8"));
  }

  async end(): Promise<void> {
    rmSync(this.#go, { force: true });
    const record = join(this.#site.state, "run", `h-${this.handle}.json`);
    await until("the agent has ended", () => !existsSync(record));
  }
}

/** Milliseconds of processor time so far, of all threads. */
export function processorTime(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0])
    .reduce((sum, nanoseconds) => sum + Number(nanoseconds) / 1e6, 0);
}

export async function until(what: string, look: () => boolean, deadlineMs = 120_000): Promise<void> {
  const end = performance.now() + deadlineMs;
  while (!look()) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`);
    await sleep(5);
  }
}
