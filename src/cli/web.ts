/** `reprise web`: a page in the browser that shows runs and acts on them; its links and tokens. */
import { spawn } from "node:child_process";
import { readFileSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import { type JsonObject, parseObject, stringIn } from "../lib/json.ts";
import { detachedEnv } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import { writeAtomic } from "../state/files.ts";
import { runtimeDir } from "../state/runtime.ts";
import { openLog } from "../state/tape.ts";
import { table } from "../lib/table.ts";
import type { Core, Rights, WebOptions } from "../web/web.ts";
import { attemptOptions } from "./attempt-options.ts";
import { COMMANDS } from "./commands.ts";
import type { Context } from "./context.ts";
import {
  type CommandGroup,
  count,
  defineCommand,
  flag,
  JSON_FLAG,
  negation,
  type OptionsOf,
  personName,
  tagWords,
  text,
  withValue,
} from "./define.ts";
import { entryOf, execute } from "./dispatch.ts";

const READ_ONLY = {
  readOnly: flag("allow no change: no start, resume, stop, answer or typing"),
  raw: flag("with --read-only: show terminals and raw recordings as well, which may hold secrets"),
};

const SERVE = {
  port: withValue(
    "<n>",
    "port (default: a stable one for this state directory, or the next free one)",
    count(1, 65_535),
  ),
  host: withValue("<address>", "address to listen on (default 127.0.0.1)", text),
  open: negation("do not open a browser"),
  detach: flag("run in the background; stop it with `reprise web stop`"),
  readOnly: flag("refuse every change, whatever link or token is used"),
  tlsCert: withValue("<file>", "certificate, for an address that other machines reach", text, {
    values: "files",
  }),
  tlsKey: withValue("<file>", "key of the certificate", text, { values: "files" }),
  passwordFile: withValue(
    "<file>",
    "file with a password of 12 or more characters, for other machines",
    text,
    {
      values: "files",
    },
  ),
  behindProxy: withValue("<url>", "https address that a proxy on this machine shows", text),
  json: flag("print one JSON object when the server listens"),
};

const serve = defineCommand({
  name: "web",
  summary:
    "Show runs, agents, batches, reviews and decisions in a browser. Runs until Ctrl-C; agents keep running without it.",
  options: SERVE,
  examples: [
    "reprise web",
    "reprise web --detach --no-open",
    "reprise web --read-only",
    "ssh -L 20123:127.0.0.1:20123 host     (then open the link of `reprise web` on that host)",
  ],
  run: async ({ options }, context) => {
    const deps = await context.open({ cwd: null });
    const found = await running(deps, context, options);
    if (found !== null) return found;
    if (options.detach === true) return inBackground(deps, context, options);
    const { serveWeb } = await import("../web/web.ts");
    const server = await serveWeb(coreOf(context, deps), webOptions(options, context));
    // Another server was faster.
    if (server === null) return (await running(deps, context, options)) ?? 4;
    const link = server.makeLink(options.readOnly === true ? "read-raw" : "full");
    announce(context, { url: server.url, link, pid: process.pid }, options.json === true);
    const opened = options.open && options.json === undefined ? openBrowser(deps, context, link) : null;
    try {
      await untilStopped(server.stopped);
    } finally {
      opened?.();
      await server.close();
    }
    return 0;
  },
});

type ServeOptions = OptionsOf<typeof SERVE>;

function webOptions(options: ServeOptions, context: Context): WebOptions {
  const read = (path: string) => {
    try {
      return readFileSync(path);
    } catch (error) {
      throw new Fault("usage", `${path} cannot be read.`, { facts: { path }, cause: error });
    }
  };
  const { tlsCert, tlsKey, passwordFile } = options;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new Fault("usage", "Give --tls-cert and --tls-key together.");
  return {
    ...{ host: options.host ?? "127.0.0.1", port: options.port ?? null, readOnly: options.readOnly === true },
    tls: tlsCert === undefined || tlsKey === undefined ? null : { cert: read(tlsCert), key: read(tlsKey) },
    password:
      passwordFile === undefined ? null : (read(passwordFile).toString("utf8").split(/\r?\n/, 1)[0] ?? ""),
    behindProxy: options.behindProxy ?? null,
    log: (line) => {
      if (context.env["REPRISE_DEBUG"] === "1" || line.startsWith("bug:")) context.log.warn(line);
    },
  };
}

interface Announced {
  readonly url: string;
  readonly link: string;
  readonly pid: number;
}

function announce(context: Context, { url, link, pid }: Announced, json: boolean): void {
  if (json) return context.printJson({ ok: true, url, link, pid });
  context.print(link);
  context.log.info(
    "Open this link in a browser on this machine within a minute; it works once. Another link: reprise web link",
  );
}

/** The link of a server that runs already. Null: none runs. */
async function running(
  deps: Deps,
  context: Context,
  { json, readOnly }: Pick<ServeOptions, "json" | "readOnly">,
): Promise<number | null> {
  const { findWeb } = await import("../web/web.ts");
  await using found = await findWeb(deps);
  if (found === null) return null;
  const { url, pid } = found;
  const rights = readOnly === true ? "read-raw" : "full";
  announce(context, { url, link: await found.link(rights), pid }, json === true);
  return 0;
}

/** The reading part of the core, and the commands, in this process. */
function coreOf(context: Context, deps: Deps): Core {
  const quiet = { warn: () => {}, info: () => {} };
  const terminal = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };
  const shared = { ...deps, log: quiet };
  return {
    deps: shared,
    version: context.version,
    ask: async ([name = "", ...args]) => {
      let printed: unknown = null;
      const own: Context = {
        ...context,
        ...{ terminal, log: quiet, print: () => {}, printJson: (value) => void (printed ??= value) },
        abandonOutput: () => {},
        // One index for all requests: the options of a command only change its config.
        open: async ({ cwd = null, ...rest } = {}) =>
          cwd === null ? shared : context.configure(shared, { ...rest, cwd }),
      };
      const entry = entryOf(COMMANDS, name);
      if (entry === undefined) throw new Fault("usage", "Unknown command.");
      await execute(await entry.load(), ["--json", ...args], own);
      return (printed ?? { ok: true }) as JsonObject;
    },
    configure: (cwd) => context.configure(shared, { cwd, runsAgents: true, badConfig: "refuse" }),
    attempt: (configured) => attemptOptions({}, configured, { ...context, terminal }),
    checkName: personName,
    checkTags: tagWords,
  };
}

async function untilStopped(stopped: Promise<void>): Promise<void> {
  let finish: () => void = () => {};
  const asked = new Promise<void>((resolve) => (finish = resolve));
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, finish);
  await Promise.race([asked, stopped]);
  for (const signal of signals) process.off(signal, finish);
}

const OPEN_MS = 60_000;

/** The browser gets a file with the link: arguments of programs are visible to every user. Returns the clean-up. */
function openBrowser(deps: Deps, context: Context, link: string): (() => void) | null {
  const hasScreen =
    process.platform === "darwin" || ["DISPLAY", "WAYLAND_DISPLAY"].some((name) => context.env[name]);
  if (!context.terminal.stdout || !hasScreen) return null;
  const path = join(runtimeDir(deps.state, deps.env), "open.html");
  const address = link.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  writeAtomic(
    path,
    `<!doctype html><meta http-equiv="refresh" content="0;url=${address}"><title>Reprise</title>\n`,
  );
  const remove = () => {
    try {
      unlinkSync(path);
    } catch {
      // Removed already.
    }
  };
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [path], { stdio: "ignore", detached: true, env: detachedEnv(context.env) });
  child.on("error", () => {});
  child.unref();
  setTimeout(remove, OPEN_MS).unref();
  return remove;
}

const READY_MS = 15_000;

/** The same program without a terminal; its first line says where it listens. */
async function inBackground(deps: Deps, context: Context, options: ServeOptions): Promise<number> {
  const log = openLog(join(runtimeDir(deps.state, deps.env), "w.log"));
  const given: readonly (readonly [string, string | number | undefined])[] = [
    ["port", options.port],
    ["host", options.host],
    ["tls-cert", options.tlsCert],
    ["tls-key", options.tlsKey],
    ["password-file", options.passwordFile],
    ["behind-proxy", options.behindProxy],
  ];
  const args = [
    ...given.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`])),
    ...(options.readOnly === true ? ["--read-only"] : []),
  ];
  const child = spawn(process.execPath, [process.argv[1] ?? "", "web", "--json", ...args], {
    detached: true,
    env: detachedEnv(context.env),
    stdio: ["ignore", "pipe", log],
  });
  let out = "";
  child.stdout?.on("data", (chunk: Buffer) => void (out += chunk.toString("utf8")));
  let ended = false;
  child.on("exit", () => void (ended = true));
  const end = deps.clock.mono() + READY_MS;
  while (!out.includes("\n") && !ended && deps.clock.mono() < end) await sleep(20);
  child.stdout?.destroy();
  child.unref();
  const said = parseObject(out) ?? {};
  const [url, link] = [stringIn(said, "url"), stringIn(said, "link")];
  if (url === undefined || link === undefined) {
    const { message } = (said["error"] ?? {}) as { message?: string };
    throw new Fault(
      "no_answer",
      `The web server did not start. ${message ?? "See w.log in the runtime directory."}`,
    );
  }
  announce(context, { url, link, pid: child.pid ?? 0 }, options.json === true);
  return 0;
}

const rightsOf = ({ readOnly, raw }: OptionsOf<typeof READ_ONLY>): Rights => {
  if (raw === true && readOnly !== true) throw new Fault("usage", "--raw goes with --read-only.");
  return readOnly === true ? (raw === true ? "read-raw" : "read") : "full";
};

const link = defineCommand({
  name: "web link",
  summary: "Print another link to the running page. It works once, within a minute.",
  options: { ...READ_ONLY, json: JSON_FLAG },
  examples: ["reprise web link", "reprise web link --read-only"],
  run: async ({ options, reply }, context) => {
    const rights = rightsOf(options);
    const { findWeb } = await import("../web/web.ts");
    await using found = await findWeb(await context.open({ cwd: null }));
    if (found === null) throw notRunning();
    const made = await found.link(rights);
    reply({ link: made, url: found.url, rights }, made);
    return 0;
  },
});

const stop = defineCommand({
  name: "web stop",
  summary: "Stop the web server. Agents keep running.",
  options: { json: JSON_FLAG },
  examples: ["reprise web stop"],
  run: async ({ reply }, context) => {
    const { findWeb } = await import("../web/web.ts");
    await using found = await findWeb(await context.open({ cwd: null }));
    await found?.stop();
    const said =
      found === null ? "The web server is not running." : `The web server (pid ${found.pid}) has stopped.`;
    reply({ stopped: found !== null, pid: found?.pid ?? null }, said);
    return 0;
  },
});

const notRunning = () =>
  new Fault("no_answer", "The web server is not running. Start it: reprise web (or: reprise web --detach)");

const token = defineCommand({
  name: "web token",
  summary: "Make a bearer token for scripts. Reprise shows it once and stores its hash.",
  options: {
    name: withValue("<name>", "name of the token, to list and revoke it", personName),
    ...READ_ONLY,
    json: JSON_FLAG,
  },
  examples: [
    "reprise web token --name ci --read-only",
    'curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:20123/api/v1/runs',
  ],
  run: async ({ options, reply }, context) => {
    const { name } = options;
    if (name === undefined) throw new Fault("usage", "Give the token a name: --name ci");
    const rights = rightsOf(options);
    const deps = await context.open({ cwd: null });
    const { addToken } = await import("../web/web.ts");
    const createdAt = new Date(deps.clock.now()).toISOString();
    const { secret, token: made } = await addToken(deps.state, { name, rights, createdAt });
    reply({ id: made.id, name, rights, token: secret }, secret);
    return 0;
  },
});

const tokens = defineCommand({
  name: "web tokens",
  summary: "List the bearer tokens.",
  options: { json: JSON_FLAG },
  examples: ["reprise web tokens"],
  run: async ({ reply }, context) => {
    const deps = await context.open({ cwd: null });
    const { readTokens } = await import("../web/web.ts");
    const found = readTokens(deps.state).map(({ hash: _hash, ...rest }) => rest);
    reply({ tokens: found }, () => {
      if (found.length === 0)
        return context.print("There are no tokens. Make one: reprise web token --name ci");
      const rows = found.map(({ id, name, rights, createdAt }) => [id, name, rights, createdAt]);
      for (const line of table([["ID", "NAME", "RIGHTS", "CREATED"], ...rows])) context.print(line);
    });
    return 0;
  },
});

const revoke = defineCommand({
  name: "web revoke",
  summary: "Revoke a bearer token. It stops working at once.",
  args: { token: { help: "name or id of the token", required: true } },
  options: { json: JSON_FLAG },
  examples: ["reprise web revoke ci"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const { revokeToken } = await import("../web/web.ts");
    const { id, name } = await revokeToken(deps.state, args.token);
    reply({ id, name }, `Token ${name} is revoked.`);
    return 0;
  },
});

export const command: CommandGroup = {
  name: "web",
  summary: "A page in the browser that shows runs, agents, batches, reviews and decisions, and acts on them.",
  alone: "serve",
  commands: {
    serve: { summary: "serve the page until Ctrl-C", load: async () => serve },
    link: { summary: "print another link to the page", load: async () => link },
    stop: { summary: "stop the server", load: async () => stop },
    token: { summary: "make a bearer token for scripts", load: async () => token },
    tokens: { summary: "list the bearer tokens", load: async () => tokens },
    revoke: { summary: "revoke a bearer token", load: async () => revoke },
  },
  examples: ["reprise web", "reprise web --read-only --no-open", "reprise web token --name ci --read-only"],
};
