/** P21: a write through the web server happens once, whenever the server is killed. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../e2e/agent-storms.ts";
import { until } from "../e2e/sandbox.ts";
import { CrashBox } from "./crash-box.ts";
import { inParallel } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const webWrites: Promised = {
  id: "P21",
  what: "kills of the web server during writes",
  wrong: "lost or doubled an acknowledged write",
  means:
    "A start, resume, fork or rename through the web server that was acknowledged is there once, and none happens twice, if the server is killed at any moment and the client repeats the request",
  check,
};

/** Boxes, and kills in each. */
const TRIALS = { short: [2, 4], whole: [10, 20] } as const;
const END_MS = 90_000;

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const [boxes, kills] = TRIALS[short ? "short" : "whole"];
  const broken: string[] = [];
  const figures: Record<string, number> = {};
  await inParallel(
    Array.from({ length: boxes }, (_, n) => n),
    async (n) => {
      progress(`P21: ${n + 1} of ${boxes}`);
      const wrong = await trial(seed * 1_000 + n, kills, figures).catch((error: unknown) => [String(error)]);
      broken.push(...wrong.map((what) => `seed ${seed}, trial ${n}: ${what}`));
    },
    2,
  );
  return { tried: boxes * kills, broken, untried: [], figures };
}

interface Acknowledged {
  readonly message: string;
  readonly handle: string;
  readonly attempt: number;
}

async function trial(
  seed: number,
  kills: number,
  figures: Record<string, number>,
): Promise<readonly string[]> {
  await using box = new CrashBox();
  const chance = chances(seed);
  const count = (what: string) => (figures[what] = (figures[what] ?? 0) + 1);
  const { handle } = await box.json<{ handle: string }>(["start", "demo", "remember 4711"]);
  const { token } = await box.json<{ token: string }>(["web", "token", "--name", "p21"]);
  const server = new Server(box, token);
  try {
    const done: Acknowledged[] = [];
    for (let n = 0; n < kills; n += 1) {
      await server.start();
      const killing = sleep(chance() * 600).then(() => server.kill());
      const message = `write ${seed}-${n}`;
      const kind = chance() < 0.5 ? "start" : "resume";
      count(`${kind}s`);
      const path = kind === "start" ? "/runs" : `/runs/${handle}/resume`;
      const body = kind === "start" ? { engine: "demo", message, cwd: box.cwd } : { message };
      let reply = await server.post(path, body, `key-${seed}-${n}`);
      await killing;
      for (let again = 0; reply === null && again < 20; again += 1) {
        count("repeated after a kill");
        await server.start();
        reply = await server.post(path, body, `key-${seed}-${n}`);
      }
      if (reply === null) return [`${message} was never answered`];
      if (reply.status >= 300) return [`${message} was refused: ${JSON.stringify(reply.body)}`];
      const made = { message, handle: String(reply.body["handle"]), attempt: Number(reply.body["attempt"]) };
      done.push(made);
      await ended(box, made);
    }
    return await judge(box, done);
  } finally {
    server.kill();
  }
}

async function ended(box: CrashBox, { handle, attempt }: Acknowledged): Promise<void> {
  const deadline = Date.now() + END_MS;
  for (;;) {
    const { history } = await box.shownRun(handle);
    if (history.some((one) => one["n"] === attempt && one["outcome"] !== null)) return;
    if (Date.now() > deadline) throw new Error(`attempt ${attempt} of ${handle} never ended`);
    await sleep(50);
  }
}

/** The agents' own journal says what they heard; `show` says which attempt it was. */
async function judge(box: CrashBox, done: readonly Acknowledged[]): Promise<readonly string[]> {
  const heard = box.messages();
  const broken: string[] = [];
  for (const { message, handle, attempt } of done) {
    const times = heard.filter((text) => text === message).length;
    if (times !== 1) broken.push(`the agents heard ${JSON.stringify(message)} ${times} times`);
    const { history } = await box.shownRun(handle);
    const made = history.find((one) => one["n"] === attempt);
    if (made?.["message"] !== message)
      broken.push(`attempt ${attempt} of ${handle} is not ${JSON.stringify(message)}`);
  }
  const runs = (await box.json<{ runs: unknown[] }>(["list", "--limit", "1000"])).runs.length;
  const begun = new Set(done.map(({ handle }) => handle)).size;
  if (runs > begun + 1) broken.push(`there are ${runs} runs, and ${begun} were acknowledged`);
  return broken;
}

/** `reprise web`, killed and started again. */
class Server {
  readonly #box: CrashBox;
  readonly #token: string;
  #child: ChildProcess | null = null;
  #url = "";

  constructor(box: CrashBox, token: string) {
    this.#box = box;
    this.#token = token;
  }

  async start(): Promise<void> {
    if (this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null) return;
    const child = this.#box.spawn(["web", "--json", "--no-open"]);
    let out = "";
    child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString()));
    child.stderr?.resume();
    await until("the server listens", () => out.includes("\n") || child.exitCode !== null, END_MS);
    const said = JSON.parse(out) as { url?: string };
    if (said.url === undefined) throw new Error(`the server did not start: ${out}`);
    this.#child = child;
    this.#url = said.url;
  }

  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  /** Null: no answer. */
  async post(
    path: string,
    body: object,
    key: string,
  ): Promise<{ status: number; body: Record<string, unknown> } | null> {
    try {
      const response = await fetch(`${this.#url}api/v1${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${this.#token}`,
          "content-type": "application/json",
          "idempotency-key": key,
        },
        body: JSON.stringify(body),
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    } catch {
      return null;
    }
  }
}
