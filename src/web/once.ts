/**
 * Requests that must act once, whatever happens to the server or the connection.
 *
 * A request with an `Idempotency-Key` is recorded with its plan before it acts, and with its reply afterwards. A repeated
 * request gets the recorded reply. If the server died in between, the plan shows what may have happened already: the id
 * of the run to start, or the number of the attempt to make.
 */
import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { fieldIn, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { makeDirectory, readRecord, removeQuietly, writeAtomic } from "../state/files.ts";
import type { StateDir } from "../state/directory.ts";
import type { Reply } from "./reply.ts";

/** What an action needs to know to act once. `repeated`: an earlier server may have acted on the same plan. */
export interface Planned<P> {
  readonly plan: P;
  readonly repeated: boolean;
}

const KEEP_MS = 48 * 60 * 60_000;

export class OnceBook {
  readonly #directory: string;
  readonly #now: () => number;
  readonly #running = new Map<string, Promise<Reply>>();

  constructor(state: StateDir, now: () => number) {
    this.#directory = join(state.root, "web", "requests");
    this.#now = now;
    if (!state.writable) return;
    makeDirectory(join(state.root, "web"));
    makeDirectory(this.#directory);
    this.#forgetOld();
  }

  async once<P extends JsonObject>(
    request: { readonly key: string; readonly route: string; readonly body: JsonObject },
    makePlan: () => Promise<P>,
    act: (planned: Planned<P>) => Promise<Reply>,
  ): Promise<Reply> {
    const hash = createHash("sha256").update(`${request.route}\n${request.key}`).digest("hex");
    // The record decides whether a repeated request is the same one.
    await this.#running.get(hash)?.catch(() => {});
    const again = this.#running.get(hash);
    if (again !== undefined) return this.once(request, makePlan, act);
    const work = this.#once(hash, request, makePlan, act);
    this.#running.set(hash, work);
    try {
      return await work;
    } finally {
      this.#running.delete(hash);
    }
  }

  async #once<P extends JsonObject>(
    hash: string,
    { route, body }: { readonly route: string; readonly body: JsonObject },
    makePlan: () => Promise<P>,
    act: (planned: Planned<P>) => Promise<Reply>,
  ): Promise<Reply> {
    const path = join(this.#directory, `${hash}.json`);
    const bodyHash = createHash("sha256").update(JSON.stringify(body)).digest("hex");
    const found = readRecord(path);
    if (found !== null && stringIn(found, "body") !== bodyHash)
      throw new Fault("usage", "This Idempotency-Key was used for another request. Use a new key.");
    const reply = objectIn(found, "reply");
    if (reply !== undefined)
      return { status: numberIn(reply, "status") ?? 200, body: objectIn(reply, "body") ?? {} };
    const plan = found === null ? await makePlan() : ((fieldIn(found, "plan") ?? {}) as P);
    const record = { v: 1, at: this.#now(), route, body: bodyHash, plan };
    if (found === null) writeAtomic(path, `${JSON.stringify(record)}\n`);
    // The plan stays after a fault: the same request acts on it again, and finds what was done.
    const done = await act({ plan, repeated: found !== null });
    writeAtomic(path, `${JSON.stringify({ ...record, reply: done })}\n`);
    return done;
  }

  #forgetOld(): void {
    for (const name of readdirSync(this.#directory)) {
      const path = join(this.#directory, name);
      const stats = statSync(path, { throwIfNoEntry: false });
      if (stats !== undefined && this.#now() - stats.mtimeMs > KEEP_MS) removeQuietly(path);
    }
  }
}
