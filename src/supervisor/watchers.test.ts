import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { memoryStore } from "../../test/contracts/memory-store.ts";
import { documentLike, runLike } from "../../test/contracts/store-samples.ts";
import type { Peer } from "../ipc/ipc.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Store } from "../store/store.ts";
import type { AgentView } from "./snapshot.ts";
import { Watchers } from "./watchers.ts";

class Client implements Peer {
  readonly heard: JsonObject[] = [];
  unread = 0;
  gone: () => void = () => {};
  notify(event: string, data: JsonObject): void {
    this.heard.push({ event, ...data });
  }
  async drained(): Promise<void> {}
  onClosed(listener: () => void): void {
    this.gone = listener;
  }
}

let store: Store;
let views: AgentView[];
let watchers: Watchers;
let looks: number;
beforeEach(() => {
  store = memoryStore();
  views = [];
  looks = 0;
  const counted: Store = { ...store, countRuns: (filter) => ((looks += 1), store.countRuns(filter)) };
  watchers = new Watchers({ store: counted, views: () => views });
});
afterEach(() => {
  watchers.close();
  vi.useRealTimers();
});

test("every client hears which topics changed, once, and none that did not", async () => {
  const [one, other] = [new Client(), new Client()];
  await watchers.add(one);
  await watchers.add(other);
  await watchers.look();
  expect(one.heard).toEqual([]);
  await store.createRun(runLike(1));
  await store.saveDocument(documentLike({ kind: "decision" }), null);
  await watchers.look();
  await watchers.look();
  const changed = [{ event: "changed", topics: ["decisions", "runs"] }];
  expect([one.heard, other.heard]).toEqual([changed, changed]);
  await store.saveDocument(documentLike({ kind: "pipeline" }), null);
  views = [{ id: "00000001" } as unknown as AgentView];
  await watchers.look();
  expect(one.heard.at(-1)).toEqual({ event: "changed", topics: ["agents", "pipelines"] });
});

test("a client that does not read is dropped, and nobody looks without clients", async () => {
  vi.useFakeTimers();
  const [slow, other] = [new Client(), new Client()];
  await watchers.add(slow);
  await watchers.add(other);
  slow.unread = 1024 * 1024;
  await store.createRun(runLike(1));
  await watchers.look();
  slow.unread = 0;
  await store.createRun(runLike(2));
  await watchers.look();
  expect([slow.heard.length, other.heard.length]).toEqual([0, 2]);
  const before = looks;
  other.gone();
  await store.createRun(runLike(3));
  await vi.advanceTimersByTimeAsync(10_000);
  expect([looks, other.heard.length]).toEqual([before, 2]);
});

test("the timer notices changes without a call", async () => {
  const client = new Client();
  await watchers.add(client);
  await store.createRun(runLike(1));
  const end = Date.now() + 20_000;
  while (client.heard.length === 0 && Date.now() < end) await new Promise((wake) => setTimeout(wake, 20));
  expect(client.heard).toEqual([{ event: "changed", topics: ["runs"] }]);
});
