/** A channel on a real socket: access, answers, and the limits on bad clients. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { type Channel, listen, type Method } from "./server.ts";
import { connect } from "./client.ts";

const TOKEN = "ab".repeat(32);
let directory = "";
let path = "";
let open: Channel[] = [];

beforeEach(() => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), "reprise-ch-")));
  chmodSync(directory, 0o700);
  path = join(directory, "d.sock");
  open = [];
});
afterEach(async () => {
  for (const channel of open) await channel.close();
  rmSync(directory, { recursive: true, force: true });
});

async function serve(methods: Record<string, Method> = {}, helloMs?: number): Promise<void> {
  const all: Record<string, Method> = { echo: (params) => params, ...methods };
  open.push(
    await listen(path, TOKEN, all, {
      hello: () => ({ version: "1" }),
      ...(helloMs === undefined ? {} : { helloMs }),
    }),
  );
}

async function client() {
  const connection = await connect(path, TOKEN);
  if (connection === null) throw new Error("no server listens");
  return connection;
}

/** The server's answer to these bytes, until it ends the connection or for the given time. */
async function rawClient(bytes: string | Buffer): Promise<{ socket: Socket; text: () => string }> {
  const socket = createConnection(path);
  let text = "";
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
  socket.write(bytes);
  return { socket, text: () => text };
}

/** In any way: a reset is an error, but also an end. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => void socket.once("close", () => resolve()));
}

async function until(what: string, look: () => boolean): Promise<void> {
  for (let tries = 0; !look(); tries += 1) {
    if (tries > 1_000) throw new Error(`never happened: ${what}`);
    await sleep(10);
  }
}

describe("calls", () => {
  test("cover hello, answers, events, faults, unknown methods and bugs", async () => {
    const bugs: unknown[] = [];
    open.push(
      await listen(
        path,
        TOKEN,
        {
          add: ({ a, b }) => Number(a) + Number(b),
          nothing: () => undefined,
          refuse: () => {
            throw new Fault("run_busy", "Not now.", { facts: { handle: "1a2b3c4d", list: ["x"] } });
          },
          bug: () => {
            throw new TypeError("secret detail");
          },
          tell: (_params, peer) => peer.notify("told", { n: 1 }),
        },
        { hello: () => ({ pid: 7 }), onBug: (error) => bugs.push(error) },
      ),
    );
    await using one = await client();
    expect(one.hello).toEqual({ pid: 7 });
    expect(await one.call("add", { a: 2, b: 3 })).toBe(5);
    expect(await one.call("nothing")).toBe(null);
    await expect(one.call("refuse")).rejects.toMatchObject({
      code: "run_busy",
      message: "Not now.",
      facts: { handle: "1a2b3c4d", list: ["x"] },
    });
    await expect(one.call("constructor")).rejects.toMatchObject({ code: "usage" });
    await expect(one.call("bug")).rejects.toThrow("A bug in Reprise");
    expect(bugs).toHaveLength(1);
    const told: unknown[] = [];
    await one.call("tell");
    one.onEvent((event, data) => told.push([event, data]));
    expect(told).toEqual([["told", { n: 1 }]]);
  });

  test("do not wait for each other, and time out without an answer", async () => {
    await serve({ never: () => new Promise(() => {}) });
    await using one = await client();
    const never = one.call("never", {}, 100);
    expect(await one.call("echo", { x: 1 })).toEqual({ x: 1 });
    await expect(never).rejects.toMatchObject({ code: "no_answer" });
  });

  test("accept a frame of 1 MiB and no larger one", async () => {
    await serve();
    await using one = await client();
    const text = "x".repeat(1024 * 1024 - 100);
    expect(await one.call("echo", { text })).toEqual({ text });
    expect(() => one.call("echo", { text: `${text}${"y".repeat(200)}` })).toThrow(/longer than 1 MiB/);
  });

  test("end with the server, open ones included", async () => {
    await serve({ never: () => new Promise(() => {}) });
    const one = await client();
    const never = one.call("never");
    const seen = expect(never).rejects.toMatchObject({ code: "no_answer" });
    await open.pop()?.close();
    await one.closed;
    await seen;
    expect(existsSync(path)).toBe(false);
    expect(await connect(path, TOKEN)).toBe(null);
    await expect(one.call("echo")).rejects.toMatchObject({ code: "no_answer" });
  });
});

describe("admission", () => {
  test("the socket is ours alone, and so must its directory be", async () => {
    await serve();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    chmodSync(directory, 0o777);
    await expect(connect(path, TOKEN)).rejects.toMatchObject({ code: "denied" });
  });

  test.each([
    ["a wrong token", `{"token":"${"cd".repeat(32)}"}\n`],
    ["a part of it", `{"token":"${TOKEN.slice(0, 63)}"}\n`],
    ["none", `{"id":1,"method":"echo","params":{}}\n`],
    ["no text", `{"token":["${TOKEN}"]}\n`],
  ])("%s is refused without detail, and the rest of the connection is ignored", async (_name, line) => {
    let called = 0;
    await serve({ echo: () => (called += 1) });
    const { socket, text } = await rawClient(`${line}{"id":1,"method":"echo","params":{}}\n`);
    await closed(socket);
    expect(text()).toBe('{"refused":true}\n');
    expect(called).toBe(0);
  });

  test("the client says that the server does not know its token", async () => {
    await serve();
    await expect(connect(path, "ef".repeat(32))).rejects.toMatchObject({ code: "denied" });
  });

  test("the server does not wait for a silent client", async () => {
    await serve({}, 100);
    const { socket } = await rawClient("");
    await closed(socket);
    await using one = await client();
    expect(one.hello).toEqual({ version: "1" });
  });

  test("the client does not wait for a silent server", async () => {
    const mute = createServer(() => {}).listen(path);
    await once(mute, "listening");
    await expect(connect(path, TOKEN, 100)).rejects.toMatchObject({ code: "no_answer" });
    mute.close();
  });
});

describe("bad clients", () => {
  test.each([
    ["no JSON", "hello\n"],
    ["no object", "[1]\n"],
    ["an empty line", "\n"],
    ["a call without id", '{"method":"echo"}\n'],
    ["a call without method", '{"id":1}\n'],
    ["bytes", Buffer.from([0xff, 0xfe, 0x0a])],
    ["a line without end", Buffer.alloc(2 * 1024 * 1024, 0x61)],
  ])("%s ends that connection alone", async (_name, bytes) => {
    await serve();
    await using good = await client();
    const { socket } = await rawClient(`{"token":"${TOKEN}"}\n`);
    socket.write(bytes);
    await closed(socket);
    expect(await good.call("echo", { a: 1 })).toEqual({ a: 1 });
  });

  test("a client that vanishes in the middle of a reply harms no other", async () => {
    const big = "x".repeat(900_000);
    await serve({ big: () => big });
    for (let n = 0; n < 20; n += 1) {
      const { socket } = await rawClient(`{"token":"${TOKEN}"}\n{"id":1,"method":"big"}\n`);
      if (n % 2 === 0) await once(socket, "data");
      socket.destroy();
    }
    await using good = await client();
    expect(await good.call("echo", { a: 1 })).toEqual({ a: 1 });
  });

  test("a client that does not read is dropped, and the others do not notice", async () => {
    let dropped = false;
    await serve({
      flood: async (_params, peer) => {
        peer.onClosed(() => (dropped = true));
        for (let n = 0; n < 200 && !dropped; n += 1) {
          peer.notify("chunk", { data: "x".repeat(100_000) });
          await sleep(0);
        }
      },
    });
    await using good = await client();
    const { socket } = await rawClient(`{"token":"${TOKEN}"}\n{"id":1,"method":"flood"}\n`);
    socket.pause();
    await until("it is dropped", () => dropped);
    expect(await good.call("echo", { a: 1 })).toEqual({ a: 1 });
    socket.destroy();
  });

  test("64 clients connect at a time, and the next gets in when one has left", async () => {
    await serve();
    const all = [];
    for (let n = 0; n < 64; n += 1) all.push(await client());
    await expect(connect(path, TOKEN, 500)).rejects.toMatchObject({ code: "no_answer" });
    all[0]?.close();
    await all[0]?.closed;
    let got: object | null = null;
    await until("one gets in", () => {
      void connect(path, TOKEN, 500).then(
        (one) => (got ??= one),
        () => {},
      );
      return got !== null;
    });
    for (const one of all) one.close();
  });
});

describe("the socket's file", () => {
  test("is replaced after its owner died", async () => {
    const script = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.stdout.write("x"))`;
    const owner = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "ignore"] });
    await once(owner.stdout, "data");
    owner.kill("SIGKILL");
    await once(owner, "close");
    expect(existsSync(path)).toBe(true);
    await serve();
    await using one = await client();
    expect(one.hello).toEqual({ version: "1" });
  });

  test("is kept while its owner lives", async () => {
    await serve();
    await expect(listen(path, TOKEN, {})).rejects.toMatchObject({ code: "run_busy" });
    await using one = await client();
    expect(one.hello).toEqual({ version: "1" });
  });

  test("is made again after a removal, unnoticed by connected clients", async () => {
    await serve();
    await using before = await client();
    rmSync(path);
    expect(await connect(path, TOKEN)).toBe(null);
    await open[0]?.renew();
    expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
    const { ino } = statSync(path);
    await open[0]?.renew();
    expect(statSync(path).ino).toBe(ino);
    await using after = await client();
    expect([await before.call("echo", { n: 1 }), await after.call("echo", { n: 2 })]).toEqual([
      { n: 1 },
      { n: 2 },
    ]);
    await open[0]?.close();
    await Promise.all([before.closed, after.closed]);
    expect(existsSync(path)).toBe(false);
  });

  test("is left alone when another process put it there", async () => {
    await serve();
    rmSync(path);
    writeFileSync(path, "precious");
    await open[0]?.renew();
    expect(readFileSync(path, "utf8")).toBe("precious");
  });

  test("is kept when it is no socket", async () => {
    writeFileSync(path, "precious");
    await expect(listen(path, TOKEN, {})).rejects.toMatchObject({ code: "denied" });
    expect(existsSync(path)).toBe(true);
  });

  test("needs an existing directory, or the fault says so", async () => {
    await expect(listen(join(directory, "no/d.sock"), TOKEN, {})).rejects.toMatchObject({
      code: "storage_failed",
    });
    expect(await connect(join(directory, "no/d.sock"), TOKEN)).toBe(null);
  });
});
