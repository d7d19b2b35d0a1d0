/**
 * The door of `web`: a server that shows runs in a browser and acts on them. One per state directory.
 *
 * The server keeps only sessions and the record of requests: runs, agents and decisions belong to the core. Other processes reach it over a control socket, for links and to stop it.
 */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Server } from "node:http";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { isErrno } from "../core/errno.ts";
import { fieldIn, numberIn, stringIn } from "../lib/json.ts";
import { connect, type Connection, listen } from "../ipc/ipc.ts";
import { readOwnText, writeAtomic } from "../state/files.ts";
import { runtimeDir } from "../state/runtime.ts";
import { lockFile } from "../store/store.ts";
import type { Deps } from "../run/run.ts";
import { WebAccess, type Rights, RIGHTS } from "./access.ts";
import type { Core } from "./core.ts";
import { loadPage } from "./files.ts";
import type { Names } from "./guard.ts";
import { OnceBook } from "./once.ts";
import { WebRequests } from "./server.ts";
import { tokensOf } from "./tokens.ts";

export type { Rights } from "./access.ts";
export type { Core } from "./core.ts";
export { addToken, readTokens, revokeToken } from "./tokens.ts";

export interface WebOptions {
  readonly host: string;
  /** Null: a stable port of this state directory, or the next free one. */
  readonly port: number | null;
  readonly readOnly: boolean;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | null;
  readonly password: string | null;
  /** The address that a proxy on this machine shows: `https://reprise.example.com`. */
  readonly behindProxy: string | null;
  log(line: string): void;
}

export interface WebServer {
  readonly url: string;
  makeLink(rights: Rights): string;
  /** Resolves when another process asked the server to stop. */
  readonly stopped: Promise<void>;
  close(): Promise<void>;
}

const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "::1"]);
const FIRST_PORT = 20_000;
const PORTS = 10_000;
const TRIES = 50;
const MIN_PASSWORD = 12;

/** Null: another server of this state directory is running. */
export async function serveWeb(core: Core, options: WebOptions): Promise<WebServer | null> {
  assertSafe(options);
  if (core.deps.state.refusal !== null) throw core.deps.state.refusal;
  const places = placesOf(core.deps);
  const lock = await lockFile(places.lock);
  if (lock === null) return null;
  try {
    return await serve(core, options, () => lock.release());
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function serve(core: Core, options: WebOptions, released: () => void): Promise<WebServer> {
  const { deps } = core;
  const access = new WebAccess({
    now: () => deps.clock.now(),
    tokens: tokensOf(deps.state),
    password: options.password,
  });
  const names = {
    hosts: new Set<string>(),
    origins: new Set<string>(),
    behindProxy: options.behindProxy !== null,
  };
  const cookie = { name: "" };
  const requests = new WebRequests({
    ...{ core, access, names, page: loadPage(), readOnly: options.readOnly, tls: options.tls },
    book: new OnceBook(deps.state, () => deps.clock.now()),
    cookie: () => cookie.name,
    log: (line) => options.log(line),
  });
  const servers = [requests.create(), requests.create()];
  const port = await listenOn(servers, options, core.deps.state.root);
  cookie.name = `__Host-reprise-${port}`;
  const { url, page } = addNames(names, options, port, deps.state.root);
  let stop: () => void = () => {};
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const makeLink = (rights: Rights) => `${page}#t=${access.makeLink(rights)}`;
  const control = await openControl(deps, { url, makeLink, stop });
  return {
    url,
    makeLink,
    stopped,
    async close() {
      requests.close();
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
      await control.close();
      released();
    },
  };
}

/** Other machines may reach the server only over TLS and with a password. */
function assertSafe({ host, tls, password, behindProxy }: WebOptions): void {
  if (password !== null && password.length < MIN_PASSWORD)
    throw new Fault(
      "usage",
      `The password of --password-file must have at least ${MIN_PASSWORD} characters.`,
    );
  if (
    behindProxy !== null &&
    (!/^https:\/\/[a-z0-9.-]+(?::\d{1,5})?$/.test(behindProxy) || password === null)
  )
    throw new Fault(
      "usage",
      "--behind-proxy takes an address such as https://reprise.example.com, and needs --password-file.",
    );
  if (LOOPBACK.has(host)) return;
  if (tls === null || password === null)
    throw new Fault(
      "denied",
      `Other machines could reach ${host}, so --host ${host} needs --tls-cert, --tls-key and --password-file. Safer: keep 127.0.0.1 and use ssh -L.`,
      { facts: { host } },
    );
}

/** A stable address can be bookmarked, and an unusual port has no old service workers of other programs. */
async function listenOn(
  servers: readonly Server[],
  { host, port }: WebOptions,
  root: string,
): Promise<number> {
  const hash = createHash("sha256").update(root).digest().readUInt32BE(0);
  for (let at = 0; at < TRIES; at += 1) {
    const wanted = port ?? FIRST_PORT + ((hash + at) % PORTS);
    try {
      await listenEverywhere(servers, host, wanted);
      return wanted;
    } catch (error) {
      if (isErrno(error, "EADDRINUSE") && port === null) continue;
      const why = isErrno(error) ? (error.code ?? "") : String(error);
      throw new Fault(
        "storage_failed",
        `The server cannot listen on ${host}:${wanted} (${why}). Give another --port.`,
        {
          facts: { host, port: wanted },
          cause: error,
        },
      );
    }
  }
  throw new Fault("storage_failed", `No port from ${FIRST_PORT} on is free. Give one with --port.`);
}

/**
 * A browser may try ::1 before 127.0.0.1 for the same name. Another user who listened there would get the link, so both
 * addresses are ours, or the port is not used. A system without IPv6 has only one.
 */
async function listenEverywhere(
  [first, second]: readonly Server[],
  host: string,
  port: number,
): Promise<void> {
  if (first === undefined || second === undefined) return;
  await listening(first, host, port);
  if (!LOOPBACK.has(host)) return;
  try {
    await listening(second, host === "::1" ? "127.0.0.1" : "::1", port);
  } catch (error) {
    if (isErrno(error, "EADDRNOTAVAIL", "EAFNOSUPPORT")) return;
    await new Promise((closed) => first.close(closed));
    throw error;
  }
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port, exclusive: true });
  await once(server, "listening");
}

/** Fills the names that the server answers to. `page`: the address for a browser, `url` the one for scripts. */
function addNames(
  names: { hosts: Set<string>; origins: Set<string> } & Names,
  { host, tls, behindProxy }: WebOptions,
  port: number,
  root: string,
): { readonly url: string; readonly page: string } {
  const scheme = tls === null ? "http" : "https";
  // Its own name gives the page its own cookies, storage and workers.
  const own = `r-${createHash("sha256").update(`web ${root}`).digest("hex").slice(0, 12)}.localhost`;
  const local = LOOPBACK.has(host) ? [own, "127.0.0.1", "localhost", "[::1]"] : [host];
  for (const name of local) {
    names.hosts.add(`${name}:${port}`);
    names.origins.add(`${scheme}://${name}:${port}`);
  }
  if (behindProxy !== null) {
    names.origins.add(behindProxy);
    names.hosts.add(new URL(behindProxy).host);
    return { url: `${behindProxy}/`, page: `${behindProxy}/` };
  }
  const [first = host] = local;
  const url = `${scheme}://${LOOPBACK.has(host) ? "127.0.0.1" : host}:${port}/`;
  return { url, page: `${scheme}://${first}:${port}/` };
}

function placesOf(deps: Deps) {
  const directory = runtimeDir(deps.state, deps.env);
  return {
    socket: join(directory, "w.sock"),
    token: join(directory, "w.token"),
    lock: join(directory, "w.lock"),
  };
}

interface Controls {
  readonly url: string;
  readonly makeLink: (rights: Rights) => string;
  readonly stop: () => void;
}

async function openControl(deps: Deps, { url, makeLink, stop }: Controls) {
  const places = placesOf(deps);
  const token = randomBytes(32).toString("hex");
  const channel = await listen(
    places.socket,
    token,
    {
      link: (params) => {
        const rights = RIGHTS.find((one) => one === stringIn(params, "rights"));
        if (rights === undefined) throw new Fault("usage", "Unknown rights.");
        return { link: makeLink(rights) };
      },
      stop: () => void setImmediate(stop),
    },
    { hello: () => ({ pid: process.pid, url }) },
  );
  writeAtomic(places.token, `${token}\n`);
  return channel;
}

/** The running server of this state directory. */
export interface WebClient extends AsyncDisposable {
  readonly pid: number;
  readonly url: string;
  link(rights: Rights): Promise<string>;
  stop(): Promise<void>;
}

/** Null: no server is running. */
export async function findWeb(deps: Deps): Promise<WebClient | null> {
  const places = placesOf(deps);
  const token = readOwnText(places.token, 1_024)?.trim();
  const connection = token === undefined ? null : await connect(places.socket, token);
  return connection === null ? null : clientOf(connection);
}

function clientOf(connection: Connection): WebClient {
  const { hello } = connection;
  return {
    pid: numberIn(hello, "pid") ?? 0,
    url: stringIn(hello, "url") ?? "",
    link: async (rights) => String(fieldIn(await connection.call("link", { rights }), "link")),
    stop: async () => {
      await connection.call("stop");
      await connection.closed;
    },
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}
