/** A sandbox with a running web server of the built CLI, and clients that speak to it: a page, a script, a raw socket. */
import type { ChildProcess } from "node:child_process";
import { request as httpRequest } from "node:http";
import { createConnection } from "node:net";
import { WebSocket } from "ws";
import { HolderBox } from "../e2e/holder-box.ts";
import { until } from "../e2e/sandbox.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly body: Record<string, any>;
}

export interface Ask {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** The cookie and the key of a signed-in page. */
export interface PageSession {
  readonly cookie: string;
  readonly key: string;
}

export class WebBox extends HolderBox implements AsyncDisposable {
  #server: ChildProcess | null = null;
  #said: Record<string, any> = {};

  /** Starts `reprise web` and waits until it listens. */
  async serve(...args: string[]): Promise<this> {
    const child = this.spawn(["web", "--json", "--no-open", ...args]);
    this.#server = child;
    let out = "";
    let err = "";
    child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (err += chunk.toString()));
    await until("the server listens", () => out.includes("\n") || child.exitCode !== null);
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}: ${out}${err}`);
    this.#said = JSON.parse(out) as Record<string, any>;
    return this;
  }

  get url(): URL {
    return new URL(String(this.#said["url"]));
  }

  get origin(): string {
    return this.url.origin;
  }

  get link(): string {
    return String(this.#said["link"]);
  }

  /** The token of the link that the server printed, or of a new one. */
  async linkToken(...args: string[]): Promise<string> {
    const made = await this.run(["web", "link", ...args]);
    return made.stdout.trim().split("#t=")[1] ?? "";
  }

  async signIn(token = this.link.split("#t=")[1] ?? ""): Promise<PageSession> {
    const answer = await this.ask("/api/v1/session", {
      ...{ method: "POST", body: { token }, headers: { origin: this.origin } },
    });
    if (answer.status !== 200) throw new Error(`not signed in: ${answer.status} ${answer.text}`);
    const [cookie = ""] = String(answer.headers["set-cookie"]).split(";");
    return { cookie, key: String(answer.body["key"]) };
  }

  /** The headers of a signed-in page. */
  page({ cookie, key }: PageSession): Record<string, string> {
    return { cookie, "x-reprise-key": key, origin: this.origin, "sec-fetch-site": "same-origin" };
  }

  async token(...args: string[]): Promise<string> {
    return (await this.run(["web", "token", ...args])).stdout.trim();
  }

  /** One request with exactly these headers. A body is sent as JSON. */
  async ask(path: string, { method = "GET", headers = {}, body }: Ask = {}): Promise<Answer> {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const type =
      text === undefined || "content-type" in headers ? {} : { "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const { hostname, port } = this.url;
      const asked = httpRequest(
        { hostname, port, path, method, headers: { ...type, ...headers }, setHost: !("host" in headers) },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("error", reject);
          response.on("end", () => {
            const whole = Buffer.concat(chunks).toString("utf8");
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text: whole,
              body: parsed(whole),
            });
          });
        },
      );
      asked.on("error", reject);
      asked.end(text);
    });
  }

  /** Sends these bytes and returns what comes back until the server closes, or after a second without data. */
  async raw(bytes: string): Promise<string> {
    const socket = createConnection(Number(this.url.port), "127.0.0.1");
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()));
    socket.on("error", () => {});
    socket.write(bytes);
    await Promise.race([closed, until("an answer", () => text.includes("\r\n\r\n"))]);
    socket.destroy();
    return text;
  }

  /** A WebSocket with these headers. */
  socket(path: string, headers: Readonly<Record<string, string>>): TestSocket {
    return new TestSocket(`${this.origin.replace("http", "ws")}${path}`, headers);
  }

  async stopServer(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#server;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await until("the server has ended", () => child.exitCode !== null || child.signalCode !== null);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopServer("SIGKILL");
    this[Symbol.dispose]();
  }
}

function parsed(text: string): Record<string, any> {
  try {
    return JSON.parse(text) as Record<string, any>;
  } catch {
    return {};
  }
}

export class TestSocket implements Disposable {
  readonly messages: Record<string, any>[] = [];
  bytes = Buffer.alloc(0);
  /** The close code, or the HTTP status of a refused upgrade. */
  ended: number | null = null;
  readonly #ws: WebSocket;

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    this.#ws = new WebSocket(url, { headers });
    this.#ws.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.bytes = Buffer.concat([this.bytes, data]);
      else this.messages.push(JSON.parse(data.toString("utf8")) as Record<string, any>);
    });
    this.#ws.on("close", (code) => (this.ended ??= code));
    this.#ws.on("unexpected-response", (_request, response) => {
      this.ended = response.statusCode ?? 0;
      this.#ws.terminate();
    });
    this.#ws.on("error", () => {});
  }

  get raw(): WebSocket {
    return this.#ws;
  }

  async opened(): Promise<this> {
    await until("the socket is open", () => this.#ws.readyState === WebSocket.OPEN || this.ended !== null);
    return this;
  }

  say(message: object): void {
    this.#ws.send(JSON.stringify(message));
  }

  async heard(what: (message: Record<string, any>) => boolean): Promise<Record<string, any>> {
    return until("a message", () => this.messages.find(what) ?? null);
  }

  async closed(): Promise<number> {
    return until("the socket is closed", () => this.ended);
  }

  [Symbol.dispose](): void {
    this.#ws.terminate();
  }
}
