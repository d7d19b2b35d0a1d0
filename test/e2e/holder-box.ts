/** A sandbox whose holders end with it, and a client of their sockets that speaks the protocol by hand. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { Sandbox, until } from "./sandbox.ts";

export interface HolderRecord {
  readonly identity: { readonly pid: number };
  readonly attempt: number;
  readonly token: string;
}

export class HolderBox extends Sandbox {
  readonly runtime = join(this.state, "run");

  /** Null: the run has no holder. */
  holder(handle: string): HolderRecord | null {
    const file = join(this.runtime, `h-${handle}.json`);
    return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as HolderRecord) : null;
  }

  pid(handle: string): number {
    const pid = this.holder(handle)?.identity.pid;
    if (pid === undefined) throw new Error(`run ${handle} has no holder`);
    return pid;
  }

  /** Starts a detached run and returns its handle. */
  async detach(...args: string[]): Promise<string> {
    const result = await this.run(["start", ...args, "--detach"]);
    if (result.code !== 0) throw new Error(`not started (${result.code}): ${result.stderr}`);
    return result.stdout.trim();
  }

  /** The last agent that the journal knows. */
  agent(): number {
    return Number(this.journalEntries().findLast((entry) => entry["event"] === "start")?.["pid"]);
  }

  runDirectory(handle: string): string {
    return this.runDirectories().find((path) => path.endsWith(handle)) ?? "";
  }

  tape(handle: string, attempt = 1): Buffer {
    return readFileSync(join(this.runDirectory(handle), `attempts/${attempt}/pty-output.log`));
  }

  async ended(handle: string): Promise<void> {
    await until(`run ${handle} has ended`, () => this.holder(handle) === null);
  }

  /** One call over the socket, by hand. */
  async call(handle: string, method: string, params: object): Promise<Record<string, any>> {
    const socket = createConnection(join(this.runtime, `h-${handle}.sock`));
    const token = this.holder(handle)?.token;
    socket.write(`${JSON.stringify({ token })}\n${JSON.stringify({ id: 1, method, params })}\n`);
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    try {
      const answer = await until("an answer", () =>
        text.split("\n").find((line) => line.startsWith('{"id":1,') && line.endsWith("}")),
      );
      return JSON.parse(answer) as Record<string, any>;
    } finally {
      socket.destroy();
    }
  }

  /** A connection that hears events. Each call is answered in order. */
  client(handle: string) {
    const socket = createConnection(join(this.runtime, `h-${handle}.sock`));
    socket.write(`${JSON.stringify({ token: this.holder(handle)?.token })}\n`);
    let text = "";
    let calls = 0;
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    const frames = () =>
      text
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, any>);
    return {
      call: async (method: string, params: object) => {
        const id = (calls += 1);
        socket.write(`${JSON.stringify({ id, method, params })}\n`);
        return until("an answer", () => frames().find((frame) => frame["id"] === id));
      },
      events: (name: string) => frames().filter((frame) => frame["event"] === name),
      [Symbol.dispose]: () => void socket.destroy(),
    };
  }

  override [Symbol.dispose](): void {
    const names = existsSync(this.runtime) ? readdirSync(this.runtime) : [];
    for (const name of names.filter((one) => one.endsWith(".json"))) {
      try {
        process.kill(this.pid(name.slice(2, -5)), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
    super[Symbol.dispose]();
  }
}

export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
