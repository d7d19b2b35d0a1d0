/**
 * The page's only way to the server: requests with the page's key, and one WebSocket for changes.
 * While the socket is down, `link()` says so, and everything on the page counts as old.
 */
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Session } from "./types.ts";

const BASE = "/api/v1";
const KEY = "reprise-key";
const RETRIES_MS = [400, 1_000, 2_500, 5_000];
const BACKOFF_MS = [300, 700, 1_500, 3_000, 6_000, 12_000];
const PROBE_MS = 15_000;
const PATIENCE_MS = 20_000;
/** Many changes in a row are fetched this often. */
const HINT_MS = 1_000;

/** A refusal of the server. Its message says what to do. */
export class Refusal extends Error {
  readonly code: string;
  readonly status: number;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const noConnection = () =>
  new Refusal(0, "no_connection", "The server does not answer. Check that `reprise web` still runs.");

/** A fault; or a message that an agent did not get, with the reason. */
interface ErrorBody {
  readonly error?: { readonly code?: string; readonly message?: string };
  readonly why?: string;
}

async function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = localStorage.getItem(KEY);
  if (key !== null) headers.set("X-Reprise-Key", key);
  const signal = init.signal ?? AbortSignal.timeout(PATIENCE_MS);
  const reply = await fetch(BASE + path, { ...init, method, headers, signal, cache: "no-store" });
  touched();
  if (reply.ok) return reply;
  const body = (await reply.json().catch(() => null)) as ErrorBody | null;
  const code = body?.error?.code ?? `http_${reply.status}`;
  // A link that was used before does not end the session that the page has.
  if (reply.status === 401 && !(method === "POST" && path === "/session")) signedOut();
  const unsent = body?.why === undefined ? undefined : `Not sent: ${body.why}. Type it in the terminal.`;
  const message = body?.error?.message ?? unsent ?? `The server answered ${reply.status}.`;
  throw new Refusal(reply.status, code, message);
}

/** Network trouble as a refusal with a message for people. */
async function sent(method: string, path: string, init?: RequestInit): Promise<Response> {
  try {
    return await send(method, path, init);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw noConnection();
  }
}

export async function get<T>(path: string): Promise<T> {
  return (await (await sent("GET", path)).json()) as T;
}

export async function bytes(path: string): Promise<{ data: Uint8Array; total: number }> {
  const reply = await sent("GET", path);
  const data = new Uint8Array(await reply.arrayBuffer());
  return { data, total: Number(reply.headers.get("Reprise-Total") ?? data.length) };
}

/**
 * One action of a person. A lost connection is retried with the same key, so the server carries it out at most once.
 */
export async function act<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
  for (const wait of [...RETRIES_MS, null]) {
    try {
      return (await (await send("POST", path, { headers, body: JSON.stringify(body) })).json()) as T;
    } catch (error) {
      if (error instanceof Refusal) throw error;
      if (wait === null) break;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  throw noConnection();
}

// Signing in.

let whenSignedOut = (): void => undefined;
function signedOut(): void {
  localStorage.removeItem(KEY);
  whenSignedOut();
}
export function onSignedOut(listener: () => void): void {
  whenSignedOut = listener;
}

/** Trades the one-time token of the address for a session. Null: signed out. */
export async function signIn(): Promise<Session | null> {
  const token = /^#t=([\w-]+)$/.exec(location.hash)?.[1];
  if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
  if (token !== undefined) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
    const reply = await sent("POST", "/session", { headers, body: JSON.stringify({ token }) }).catch(
      (error: Refusal) => {
        if (error.status !== 401) throw error;
      },
    );
    if (reply !== undefined) localStorage.setItem(KEY, ((await reply.json()) as { key: string }).key);
  }
  try {
    return await get<Session>("/session");
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return null;
    throw error;
  }
}

export async function signOut(): Promise<void> {
  await sent("DELETE", "/session", { headers: { "Content-Type": "application/json" } });
  signedOut();
}

// The live socket.

export type LinkState = "connecting" | "live" | "lost";
export interface Link {
  readonly state: LinkState;
  /** Wall clock, milliseconds: the last sign of the server. */
  readonly at: number;
  /** Counts connections: what was fetched in an earlier one is fetched again. */
  readonly time: number;
}

type Message = Readonly<Record<string, unknown>>;
interface Subscription {
  readonly listeners: Set<(message: Message) => void>;
  /** The cursor to go on from, asked at every (re)connection. */
  from: (() => unknown) | undefined;
}

let current: Link = { state: "connecting", at: Date.now(), time: 0 };
let lastSign = Date.now();
let socket: WebSocket | null = null;
let failures = 0;
let retry: ReturnType<typeof setTimeout> | undefined;
const watchers = new Set<() => void>();
const topics = new Map<string, Subscription>();

function touched(): void {
  lastSign = Date.now();
}

function become(state: LinkState): void {
  if (state === current.state) return;
  current = { state, at: lastSign, time: current.time + (state === "live" ? 1 : 0) };
  document.documentElement.dataset["link"] = state;
  for (const watcher of watchers) watcher();
}

export function connect(): void {
  clearTimeout(retry);
  if (socket !== null && socket.readyState <= WebSocket.OPEN) return;
  const mine = new WebSocket(`${location.origin.replace(/^http/, "ws")}${BASE}/live`);
  socket = mine;
  mine.addEventListener("open", () => mine.send(JSON.stringify({ key: localStorage.getItem(KEY) })));
  mine.addEventListener("message", ({ data }) => {
    touched();
    const message = JSON.parse(String(data)) as Message;
    if (message["ready"] === true) {
      failures = 0;
      for (const topic of topics.keys()) subscribe(topic);
      become("live");
    }
    const topic = topics.get(String(message["topic"]));
    for (const listener of topic?.listeners ?? []) listener(message);
  });
  mine.addEventListener("close", () => {
    if (socket !== mine) return;
    socket = null;
    if (localStorage.getItem(KEY) === null) return;
    become("lost");
    const wait = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? 12_000;
    failures += 1;
    retry = setTimeout(connect, wait * (0.8 + Math.random() * 0.4));
    // A new server process does not know the old session: this finds out.
    if (failures === 2) void get("/session").catch(() => undefined);
  });
}

export function disconnect(): void {
  clearTimeout(retry);
  const last = socket;
  socket = null;
  last?.close();
}

function subscribe(topic: string): void {
  const from = topics.get(topic)?.from?.();
  if (socket?.readyState !== WebSocket.OPEN) return;
  socket.send(JSON.stringify({ sub: topic, ...(from === undefined || from === null ? {} : { from }) }));
}

/** Returns the end of the subscription. */
export function listen(
  topic: string,
  listener: (message: Message) => void,
  from?: () => unknown,
): () => void {
  let subscription = topics.get(topic);
  if (subscription === undefined) {
    subscription = { listeners: new Set(), from };
    topics.set(topic, subscription);
    if (current.state === "live") subscribe(topic);
  }
  subscription.listeners.add(listener);
  return () => {
    subscription.listeners.delete(listener);
    if (subscription.listeners.size > 0 || topics.get(topic) !== subscription) return;
    topics.delete(topic);
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ unsub: topic }));
  };
}

/** A connection that died silently (sleep, another network) is found by asking. */
async function probe(): Promise<void> {
  if (document.hidden || current.state !== "live" || Date.now() - lastSign < PROBE_MS) return;
  try {
    await send("GET", "/session", { signal: AbortSignal.timeout(5_000) });
  } catch {
    if (socket === null) return;
    const dead = socket;
    socket = null;
    dead.close();
    become("lost");
    connect();
  }
}

export function watchConnection(): void {
  setInterval(() => void probe(), 5_000);
  const now = () => {
    if (current.state === "live") void probe();
    else if (!document.hidden && localStorage.getItem(KEY) !== null) connect();
  };
  addEventListener("online", now);
  addEventListener("focus", now);
  document.addEventListener("visibilitychange", now);
}

export function useLink(): Link {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const watcher = () => redraw(undefined);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return current;
}

export interface Fetched<T> {
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
  readonly reload: () => void;
}

/** Fetches a path, again after each reconnection and whenever one of `topics` says that something changed. */
export function useGet<T>(path: string | null, topicNames: readonly string[] = []): Fetched<T> {
  const [state, setState] = useState<{ path?: string; data?: T; error?: Refusal }>({});
  const [times, again] = useReducer((n: number) => n + 1, 0);
  const { time } = useLink();
  const latest = useRef(0);
  useEffect(() => {
    if (path === null) return;
    const mine = ++latest.current;
    get<T>(path).then(
      (data) => mine === latest.current && setState({ path, data }),
      (error: Refusal) =>
        mine === latest.current && setState((old) => ({ ...(old.path === path ? old : {}), path, error })),
    );
  }, [path, times, time]);
  const names = topicNames.join(" ");
  useEffect(() => {
    if (names === "") return;
    let [last, timer] = [0, 0];
    const hint = () => {
      clearTimeout(timer);
      const wait = Math.max(0, last + HINT_MS - Date.now());
      timer = window.setTimeout(() => {
        last = Date.now();
        again(undefined);
      }, wait);
    };
    const ends = names.split(" ").map((name) => listen(name, hint));
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [names]);
  const mine = state.path === path ? state : {};
  return { data: mine.data, error: mine.error, reload: () => again(undefined) };
}
