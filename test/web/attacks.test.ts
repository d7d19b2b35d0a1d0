/**
 * The attacks of docs/web.md that need no browser, each with the answer it gets. The numbers are those of the list there.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../e2e/sandbox.ts";
import { type PageSession, WebBox } from "./web-box.ts";

let box: WebBox;
let page: PageSession;
let handle: string;

beforeAll(async () => {
  box = new WebBox();
  await box.run(["start", "demo", "hello"]);
  await box.serve();
  page = await box.signIn();
  handle = ((await box.ask("/api/v1/runs", { headers: box.page(page) })).body["runs"] as any[])[0].handle;
});

afterAll(() => box[Symbol.asyncDispose]());

const own = () => box.page(page);

describe("names", () => {
  test.each([
    ["another name", () => "evil.test"],
    ["no port", () => "127.0.0.1"],
    ["a trailing dot", () => `127.0.0.1.:${box.url.port}`],
    ["another port", () => "127.0.0.1:1"],
    ["the unspecified address", () => `0.0.0.0:${box.url.port}`],
    ["a name that begins like loopback", () => `127.0.0.1.evil.test:${box.url.port}`],
    ["another localhost name", () => `evil.localhost:${box.url.port}`],
    ["upper case", () => `LOCALHOST:${box.url.port}`],
  ])("1, 2, 4: a request for %s gets 421", async (_what, host) => {
    for (const path of ["/", "/api/v1/runs"])
      expect((await box.ask(path, { headers: { ...own(), host: host() } })).status).toBe(421);
  });

  test("2: a request with an absolute target or without a host gets no answer of ours", async () => {
    const { port } = box.url;
    const absolute = `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
    expect(await box.raw(absolute)).toMatch(/^HTTP\/1\.1 400 /);
    expect(await box.raw("GET / HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1\.1 4\d\d |^$/);
    expect(await box.raw("GET / HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.[01] 421 /);
  });
});

describe("other sites", () => {
  const write = (headers: Record<string, string>, type = "application/json") =>
    box.ask(`/api/v1/runs/${handle}/rename`, {
      ...{ method: "POST", body: { name: "taken" } },
      headers: { ...headers, "content-type": type },
    });

  test("5: a write without an origin is refused", async () => {
    const { origin: _origin, ...headers } = own();
    expect((await write(headers)).status).toBe(403);
  });

  test.each([
    ["6: null", () => "null"],
    ["7: another port", () => "http://127.0.0.1:1"],
    ["7: another scheme", () => box.origin.replace("http", "https")],
    ["7: a name with our address as beginning", () => `${box.origin}.evil.test`],
  ])("a request from the origin %s is refused", async (_what, origin) => {
    expect((await write({ ...own(), origin: origin() })).status).toBe(403);
    expect((await box.ask("/api/v1/runs", { headers: { ...own(), origin: origin() } })).status).toBe(403);
  });

  test("8: a write that is not exactly JSON is refused", async () => {
    for (const type of ["text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded"])
      expect((await write(own(), type)).status).toBe(415);
  });

  test("9: a request that the browser calls foreign is refused; opening the page is not", async () => {
    for (const site of ["same-site", "cross-site", "none"]) {
      expect((await box.ask("/api/v1/runs", { headers: { ...own(), "sec-fetch-site": site } })).status).toBe(
        403,
      );
      const opened = { "sec-fetch-site": site, "sec-fetch-mode": "navigate" };
      expect((await box.ask("/", { headers: opened })).status).toBe(200);
      expect((await box.ask("/api/v1/runs", { headers: { ...own(), ...opened } })).status).toBe(403);
    }
  });

  test("10: no reply allows another origin, and preflights are refused", async () => {
    const asked = await box.ask("/api/v1/runs", {
      ...{ method: "OPTIONS", headers: { origin: box.origin, "access-control-request-method": "POST" } },
    });
    expect(asked.status).toBe(405);
    for (const answer of [asked, await box.ask("/"), await box.ask("/api/v1/runs", { headers: own() })])
      expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("19: a request through a proxy is refused", async () => {
    for (const name of ["x-forwarded-for", "x-forwarded-host", "forwarded"])
      expect((await box.ask("/", { headers: { [name]: "127.0.0.1" } })).status).toBe(403);
  });

  test("the run kept its name", async () => {
    expect((await box.json(["show", handle]))["name"]).toBeNull();
  });
});

describe("signing in", () => {
  test("13: a link signs in once", async () => {
    const token = await box.linkToken();
    await box.signIn(token);
    const again = await box.ask("/api/v1/session", {
      ...{ method: "POST", body: { token }, headers: { origin: box.origin } },
    });
    expect([again.status, again.body["error"].code]).toEqual([401, "unauthorized"]);
  });

  test("15: a cookie without the key, or a key without the cookie, is not a session", async () => {
    const { cookie, "x-reprise-key": key, ...rest } = own();
    expect((await box.ask("/api/v1/runs", { headers: { ...rest, cookie: cookie ?? "" } })).status).toBe(401);
    expect((await box.ask("/api/v1/runs", { headers: { ...rest, "x-reprise-key": key ?? "" } })).status).toBe(
      401,
    );
    const other = await box.signIn(await box.linkToken());
    const mixed = { ...own(), "x-reprise-key": other.key };
    expect((await box.ask("/api/v1/runs", { headers: mixed })).status).toBe(401);
  });

  test("16: the cookie is bound to this host, and no script reads it", async () => {
    const signed = await box.ask("/api/v1/session", {
      ...{ method: "POST", body: { token: await box.linkToken() }, headers: { origin: box.origin } },
    });
    expect(String(signed.headers["set-cookie"])).toMatch(
      /^__Host-reprise-\d+=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict; Max-Age=43200$/,
    );
  });

  test("signing out ends the session and its sockets", async () => {
    const mine = await box.signIn(await box.linkToken());
    using socket = await box.socket("/api/v1/live", { cookie: mine.cookie, origin: box.origin }).opened();
    socket.say({ key: mine.key });
    await socket.heard(({ ready }) => ready === true);
    const out = await box.ask("/api/v1/session", { method: "DELETE", headers: box.page(mine) });
    expect(out.headers["clear-site-data"]).toContain("storage");
    expect(await socket.closed()).toBe(4401);
    expect((await box.ask("/api/v1/runs", { headers: box.page(mine) })).status).toBe(401);
  });

  test("failed sign-ins are limited", async () => {
    await using other = await new WebBox().serve();
    const attempt = () =>
      other.ask("/api/v1/session", {
        ...{ method: "POST", body: { token: "x".repeat(43) }, headers: { origin: other.origin } },
      });
    const answers: number[] = [];
    for (let at = 0; at < 12; at += 1) answers.push((await attempt()).status);
    expect(answers).toEqual([...Array<number>(10).fill(401), 429, 429]);
  });
});

describe("sockets", () => {
  const paths = () => ["/api/v1/live", `/api/v1/runs/${handle}/terminal`];

  test("11: without a cookie or with a wrong one, no socket opens", async () => {
    for (const path of paths())
      for (const cookie of ["", "__Host-reprise-1=x", page.cookie.slice(0, -1)]) {
        using socket = box.socket(path, { origin: box.origin, ...(cookie === "" ? {} : { cookie }) });
        expect(await socket.closed()).toBe(401);
      }
  });

  test("12: with a cookie, but a foreign origin or none, no socket opens", async () => {
    for (const path of paths())
      for (const headers of [{}, { origin: "http://evil.test" }, { origin: "null" }]) {
        using socket = box.socket(path, { cookie: page.cookie, ...headers });
        expect(await socket.closed()).toBe(403);
      }
  });

  test("a socket without the right key gets nothing", async () => {
    for (const key of ["", "wrong", page.key.slice(1)]) {
      using socket = await box.socket("/api/v1/live", { cookie: page.cookie, origin: box.origin }).opened();
      socket.say({ key });
      expect([await socket.closed(), socket.messages]).toEqual([4401, []]);
    }
  });

  test("27: a message that is too large ends the socket", async () => {
    using socket = await box.socket("/api/v1/live", { cookie: page.cookie, origin: box.origin }).opened();
    socket.say({ key: page.key });
    await socket.heard(({ ready }) => ready === true);
    socket.say({ sub: "x".repeat(100_000) });
    expect(await socket.closed()).toBe(1009);
  });

  test("27: a session opens no more than 16 sockets", async () => {
    const mine = await box.signIn(await box.linkToken());
    const sockets = Array.from({ length: 17 }, () =>
      box.socket("/api/v1/live", { cookie: mine.cookie, origin: box.origin }),
    );
    try {
      for (const socket of sockets) {
        await socket.opened();
        socket.say({ key: mine.key });
        await until("an answer", () => socket.messages.length > 0 || socket.ended !== null);
      }
      expect(sockets.map(({ ended }) => ended).filter((code) => code !== null)).toEqual([4429]);
    } finally {
      for (const socket of sockets) socket[Symbol.dispose]();
    }
  });
});

describe("paths and bodies", () => {
  test.each([
    "/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/assets/../files.json",
    "/assets/%2e%2e%2ffiles.json",
    "/assets/..\\files.json",
    "/files.json",
    "//etc/passwd",
    "/.env",
  ])("18: %s is not a file", async (path) => {
    const answer = await box.ask(path);
    expect(answer.status === 404 || answer.status === 400).toBe(true);
    expect(answer.text).not.toContain("root:");
  });

  test("18: a path where a handle belongs is nothing", async () => {
    for (const name of [
      "..%2f..",
      "%2e%2e",
      "....",
      `${handle}%00`,
      `${handle}/..`,
      handle.toUpperCase(),
      "--help",
      "-x",
    ]) {
      const answer = await box.ask(`/api/v1/runs/${name}`, { headers: own() });
      // A handle without letters has no upper case.
      expect([name, answer.status]).toEqual([name, name === handle ? 200 : 404]);
    }
  });

  test("bodies: too large, not JSON, not an object, unknown keys, repeated query names", async () => {
    const post = (body: unknown) =>
      box.ask(`/api/v1/runs/${handle}/rename`, { method: "POST", headers: own(), body });
    expect((await post({ name: "x".repeat(2_000_000) })).status).toBe(413);
    for (const body of ["{", "[]", '"x"', "null", '{"name":"a","extra":1}', '{"name":1}'])
      expect([body, (await post(body)).status]).toEqual([body, 400]);
    for (const query of ["limit=1&limit=2", "limit=-1", "unknown=1", "status=x%00"])
      expect((await box.ask(`/api/v1/runs?${query}`, { headers: own() })).status).toBeGreaterThanOrEqual(200);
    expect((await box.ask("/api/v1/runs?unknown=1", { headers: own() })).status).toBe(400);
    expect((await box.ask("/api/v1/runs?limit=1&limit=2", { headers: own() })).status).toBe(400);
  });

  test("values that look like options of a command are values", async () => {
    const named = await box.ask(`/api/v1/runs/${handle}/rename`, {
      ...{ method: "POST", headers: own(), body: { name: "--clear" } },
    });
    expect(named.status).toBe(400);
    for (const q of ["--everywhere", "-h", "--json", "--", "--help"]) {
      const found = await box.ask(`/api/v1/search?q=${encodeURIComponent(q)}`, { headers: own() });
      expect([q, [200, 400].includes(found.status), found.body["ok"] !== undefined]).toEqual([q, true, true]);
      expect(found.text).not.toContain("Usage:");
    }
  });
});

describe("rights", () => {
  const routes = async () => {
    const { body } = await box.ask("/api/v1/openapi.json", { headers: own() });
    return Object.entries(body["paths"] as Record<string, Record<string, any>>).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, route]) => ({
        method: method.toUpperCase(),
        path: path.replace("{handle}", handle).replace("{n}", "1").replace("{id}", "00000000-1"),
        right: route["x-right"] as string,
      })),
    );
  };

  test("26: every route needs a session, and an unknown route looks the same", async () => {
    const all = [
      ...(await routes()),
      { method: "GET", path: "/api/v1/no-such-route" },
      { method: "GET", path: "/api/v1/events" },
    ];
    expect(all.length).toBeGreaterThanOrEqual(30);
    for (const { method, path } of all) {
      const asked = { method, headers: { origin: box.origin }, ...(method === "POST" ? { body: {} } : {}) };
      const answer = await box.ask(path, asked);
      expect([method, path, answer.status]).toEqual([method, path, 401]);
    }
  });

  test("25: a session that only reads may not write, and raw output needs its own right", async () => {
    const reader = box.page(await box.signIn(await box.linkToken("--read-only")));
    const watcher = box.page(await box.signIn(await box.linkToken("--read-only", "--raw")));
    for (const { method, path, right } of await routes()) {
      const ask = (headers: Record<string, string>) =>
        box.ask(path, { method, headers, ...(method === "POST" ? { body: {} } : {}) });
      if (right === "write") {
        expect([path, (await ask(reader)).status]).toEqual([path, 403]);
        expect([path, (await ask(watcher)).status]).toEqual([path, 403]);
      } else if (right === "raw") {
        expect([path, (await ask(reader)).status]).toEqual([path, 403]);
        expect([path, (await ask(watcher)).status]).toEqual([path, 200]);
      }
    }
  });

  test("25: a terminal obeys only a page that may write", async () => {
    const run = await box.detach("demo", "@@hang");
    const token = await box.linkToken("--read-only", "--raw");
    const mine = await box.signIn(token);
    const path = `/api/v1/runs/${run}/terminal`;
    using socket = await box.socket(path, { cookie: mine.cookie, origin: box.origin }).opened();
    socket.say({ key: mine.key });
    await socket.heard(({ ready }) => ready === true);
    socket.say({ control: true });
    expect(await socket.heard(({ control, why }) => control === false && why !== undefined)).toMatchObject({
      control: false,
    });
    const secret = await box.signIn(await box.linkToken("--read-only"));
    using blind = await box.socket(path, { cookie: secret.cookie, origin: box.origin }).opened();
    blind.say({ key: secret.key });
    expect(await blind.closed()).toBe(4404);
    expect(blind.bytes.length).toBe(0);
    await box.run(["stop", run]);
  });

  test("25: --read-only refuses writes of every session and token", async () => {
    await using other = new WebBox();
    await other.run(["start", "demo", "hello"]);
    const token = await other.token("--name", "ci");
    await other.serve("--read-only");
    const asked = { method: "POST", headers: { authorization: `Bearer ${token}` }, body: {} };
    const { body } = await other.ask("/api/v1/runs", { headers: asked.headers });
    const answer = await other.ask(`/api/v1/runs/${body["runs"][0].handle}/stop`, asked);
    expect([answer.status, answer.body["error"].message]).toEqual([403, "This session may only read."]);
  });

  test("a bearer token works without an origin, until it is revoked", async () => {
    const token = await box.token("--name", "script", "--read-only");
    const headers = { authorization: `Bearer ${token}` };
    expect((await box.ask("/api/v1/runs", { headers })).status).toBe(200);
    const stop = { method: "POST", headers, body: {} };
    expect((await box.ask(`/api/v1/runs/${handle}/stop`, stop)).status).toBe(403);
    expect(await box.json(["web", "tokens"])).toMatchObject({ tokens: [{ name: "script", rights: "read" }] });
    expect((await box.run(["web", "revoke", "script"])).code).toBe(0);
    expect((await box.ask("/api/v1/runs", { headers })).status).toBe(401);
  });
});

describe("other users and traces", () => {
  test("28: tokens, links and keys are in no file but as hashes, and in no agent's environment", async () => {
    const token = await box.token("--name", "traced");
    const link = await box.linkToken();
    const mine = await box.signIn(link);
    const cookie = mine.cookie.split("=")[1] ?? "";
    const secrets = [token, link, mine.key, cookie];
    const starts = () => box.journalEntries().filter(({ event }) => event === "start");
    const before = starts().length;
    const started = await box.ask("/api/v1/runs", {
      ...{
        method: "POST",
        headers: box.page(mine),
        body: { engine: "demo", message: "@@hang", cwd: box.cwd },
      },
    });
    const run = String(started.body["handle"]);
    const agent = await until("the agent lives", () => starts()[before]?.["pid"] as number | undefined);
    const environment = readFileSync(`/proc/${agent}/environ`, "latin1");
    const files = filesBelow(box.state).map(textIfThere);
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(40);
      expect(environment).not.toContain(secret);
      expect(files.filter((text) => text.includes(secret))).toEqual([]);
      expect(spawnSync("ps", ["-eo", "args"], { encoding: "utf8" }).stdout).not.toContain(secret);
    }
    await box.run(["stop", run]);
    await box.run(["web", "revoke", "traced"]);
  });

  test("28: every file of the server is for its owner alone", () => {
    for (const path of [join(box.state, "web"), ...filesBelow(join(box.state, "web"))])
      expect([path, (statSync(path).mode & 0o077).toString(8)]).toEqual([path, "0"]);
  });

  test("30: an address that other machines reach needs TLS and a password", async () => {
    for (const host of ["0.0.0.0", "::", "192.0.2.1"]) {
      const refused = await box.json(["web", "--host", host, "--no-open"], {
        env: { REPRISE_HOME: `${box.state}-2` },
      });
      expect(refused["error"]).toMatchObject({ code: "denied" });
    }
  });

  test("every reply has the headers, errors included", async () => {
    for (const path of ["/", "/nothing", "/api/v1/runs", "/api/v1/nothing"]) {
      const { headers } = await box.ask(path);
      expect(headers["content-security-policy"]).toContain("default-src 'none'");
      expect(headers["content-security-policy"]).toContain("trusted-types 'none'");
      expect(headers).toMatchObject({
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
      });
    }
  });
});

describe("found by an independent attack", () => {
  test("no other program can listen on ::1 at the server's port, where a browser may look first", async () => {
    const other = createServer();
    const code = await new Promise<string>((resolve) => {
      other.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
      other.listen({ host: "::1", port: Number(box.url.port) }, () => resolve("listens"));
    });
    other.close();
    expect(["EADDRINUSE", "EADDRNOTAVAIL", "EAFNOSUPPORT"]).toContain(code);
  });

  test("a second `web --read-only` prints a link that can change nothing", async () => {
    const { link } = await box.json<{ link: string }>(["web", "--read-only", "--no-open"]);
    const mine = await box.signIn(link.split("#t=")[1]);
    const stop = { method: "POST", headers: box.page(mine), body: {} };
    expect((await box.ask(`/api/v1/runs/${handle}/stop`, stop)).status).toBe(403);
  });

  test("a link works while the wrong sign-ins of a stranger are limited", async () => {
    await using other = await new WebBox().serve();
    const wrong = { method: "POST", body: { token: "x".repeat(43) }, headers: { origin: other.origin } };
    for (let at = 0; at < 12; at += 1) await other.ask("/api/v1/session", wrong);
    expect(await other.signIn()).toMatchObject({});
  });

  test("a recording that is a link or a folder, and damaged tokens, do not end the server", async () => {
    await using other = new WebBox();
    await other.run(["start", "demo", "hello"]);
    await other.serve();
    const mine = await other.signIn();
    const headers = { cookie: mine.cookie, origin: other.origin };
    const { runs } = (await other.ask("/api/v1/runs", { headers: other.page(mine) })).body;
    const events = join(other.runDirectory(String(runs[0].handle)), "attempts/1/events.jsonl");
    rmSync(events);
    symlinkSync(events, events);
    using socket = await other.socket("/api/v1/live", headers).opened();
    socket.say({ key: mine.key });
    await socket.heard(({ ready }) => ready === true);
    socket.say({ sub: `conversation/${String(runs[0].handle)}` });
    await socket.heard((message) => message["error"] !== undefined);
    writeFileSync(join(other.state, "web", "tokens.json"), "{damaged");
    using stranger = other.socket("/api/v1/live", { authorization: `Bearer ${"x".repeat(43)}` });
    expect(await stranger.closed()).toBe(401);
    expect((await other.ask("/api/v1/runs", { headers: other.page(mine) })).status).toBe(200);
  });

  test("a revoked token types nothing more", async () => {
    const token = await box.token("--name", "typist");
    const run = await box.detach("claude");
    const headers = { authorization: `Bearer ${token}` };
    using socket = await box.socket(`/api/v1/runs/${run}/terminal`, headers).opened();
    await socket.heard(({ ready }) => ready === true);
    socket.say({ control: true });
    await socket.heard(({ control }) => control === true);
    await box.run(["web", "revoke", "typist"]);
    socket.say({ keys: "TYPED-AFTER" });
    expect(await socket.closed()).toBe(4401);
    expect(box.tape(run).includes("TYPED-AFTER")).toBe(false);
    await box.run(["stop", run]);
  });

  test("a resume that lost against another stays refused when it is repeated", async () => {
    const { attempts } = (await box.ask(`/api/v1/runs/${handle}`, { headers: own() })).body;
    const resume = (message: string) =>
      box.ask(`/api/v1/runs/${handle}/resume`, {
        ...{ method: "POST", body: { message, attempt: attempts } },
        headers: { ...own(), "idempotency-key": `key-of-${message}` },
      });
    const both = await Promise.all(["first", "second"].map(resume));
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const loser = both[0]?.status === 409 ? "first" : "second";
    await until("the winner has ended", () => box.holder(handle) === null || null);
    expect((await resume(loser)).status).toBe(409);
  });
});

/** The live run replaces files meanwhile. */
function textIfThere(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
