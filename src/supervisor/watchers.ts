/**
 * Tells clients of the daemon that something changed, so that none of them polls. Looks itself, also at changes of other
 * processes, and only while a client watches. A client gets topics without content, and reads what it needs.
 */
import { createHash } from "node:crypto";
import { Fault } from "../core/faults.ts";
import type { Peer } from "../ipc/ipc.ts";
import type { Store } from "../store/store.ts";
import type { AgentView } from "./snapshot.ts";

export const TOPICS = ["agents", "decisions", "pipelines", "runs"] as const;
export type ChangedTopic = (typeof TOPICS)[number];

const LOOK_MS = 250;
/** A client that leaves more than this unread hears nothing more. */
const MAX_UNREAD = 64 * 1024;

interface Watched {
  readonly store: Pick<Store, "listDocuments" | "listRuns" | "countRuns">;
  readonly views: () => readonly AgentView[];
}

export class Watchers {
  readonly #watched: Watched;
  readonly #peers = new Set<Peer>();
  #known: Readonly<Record<ChangedTopic, string>> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> | null = null;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** The client gets `changed` with `topics` from now on. Resolves when later changes are noticed. */
  async add(peer: Peer): Promise<void> {
    this.#peers.add(peer);
    peer.onClosed(() => this.#drop(peer));
    await this.look();
    if (this.#peers.size > 0) this.#timer ??= setInterval(() => void this.look(), LOOK_MS);
  }

  /** One look at a time; a slow one is not repeated while it lasts. */
  look(): Promise<void> {
    return (this.#looking ??= this.#look().finally(() => (this.#looking = null)));
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#peers.clear();
    this.#known = null;
  }

  async #look(): Promise<void> {
    const now = await this.#marks();
    const before = this.#known;
    if (now === null || this.#peers.size === 0) return;
    this.#known = now;
    const topics = before === null ? [] : TOPICS.filter((topic) => now[topic] !== before[topic]);
    if (topics.length === 0) return;
    for (const peer of this.#peers) {
      if (peer.unread > MAX_UNREAD) this.#drop(peer);
      else peer.notify("changed", { topics });
    }
  }

  #drop(peer: Peer): void {
    this.#peers.delete(peer);
    if (this.#peers.size === 0) this.close();
  }

  /** Null: the index is busy or full, and the next look follows soon. */
  async #marks(): Promise<Readonly<Record<ChangedTopic, string>> | null> {
    const { store, views } = this.#watched;
    const open = async (kind: string) =>
      (await store.listDocuments(kind, { open: true })).map(({ id, version }) => `${id}:${version}`);
    try {
      const [last] = await store.listRuns({ sort: "updated", limit: 1 });
      return {
        agents: markOf([views(), await open("agent")]),
        decisions: markOf(await open("decision")),
        pipelines: markOf(await open("pipeline")),
        runs: markOf([await store.countRuns({}), last?.runId, last?.updatedAt, last?.relabelled]),
      };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return null;
    }
  }
}

function markOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64");
}
