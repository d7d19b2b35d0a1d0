/** Typing into a simulated UI: when it happens, when it is refused, and how often it presses Enter. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Activity, Observed } from "../core/events.ts";
import { type TypingHost, MessageTyper } from "./message-typer.ts";

const CLEAR = "\x15".repeat(8);

class Ui implements TypingHost {
  readonly typed: string[] = [];
  readonly clock = { now: () => performance.now() + 1_000_000, mono: () => performance.now() };
  activity: Activity = { state: "idle" };
  certain = true;
  sinceMs = 0;
  paste = true;
  typedAt: number | null = null;
  /** The engine's answer after this many presses of Enter. */
  takenUp: (enters: number) => boolean | null = (enters) => enters >= 1;
  onWrite: (keys: string) => void = () => {};

  async look(): Promise<Observed> {
    const { activity, sinceMs, certain } = this;
    return { activity, sinceMs, grewAtMs: sinceMs, turns: 0, certain };
  }
  bracketedPaste = () => this.paste;
  personTypedAt = () => this.typedAt;
  recorded: string[] = [];
  records = true;
  sending(message: string): boolean {
    this.recorded.push(`${message} after ${this.typed.length} writes`);
    return this.records;
  }
  write(keys: string): void {
    this.typed.push(keys);
    this.onWrite(keys);
  }
  async tookUp(): Promise<boolean | null> {
    return this.takenUp(this.typed.filter((keys) => keys === "\r").length);
  }
}

function ui(changes: Partial<Ui> = {}): Ui {
  return Object.assign(new Ui(), changes);
}

const trouble = { kind: "rate_limited", message: "later" } as const;

test("the typist records a message before it types, and types nothing that cannot be recorded", async () => {
  const agent = ui();
  expect(await new MessageTyper(agent).send("hello")).toEqual({ sent: "ok" });
  expect(agent.recorded).toEqual(["hello after 0 writes"]);
  const full = ui({ records: false });
  expect(await new MessageTyper(full).send("hello")).toMatchObject({ sent: "refused" });
  expect(full.typed).toEqual([]);
});

test("the typist clears a draft, pastes the message and presses Enter once", async () => {
  const one = ui();
  expect(await new MessageTyper(one).send("go on;\nnow")).toEqual({ sent: "ok" });
  expect(one.typed).toEqual([CLEAR, "\x1b[200~go on;\rnow\x1b[201~", "\r"]);
});

test("without bracketed paste the message becomes one line; after a failed turn it is typed as well", async () => {
  const one = ui({ paste: false, activity: { state: "error", trouble } });
  expect(await new MessageTyper(one).send("go on\nnow")).toEqual({ sent: "ok" });
  expect(one.typed).toEqual([CLEAR, "go on now", "\r"]);
});

test("the typist presses Enter again when the engine missed the first, and never a third time", async () => {
  const second = ui({ takenUp: (enters) => enters >= 2 });
  const never = ui({ takenUp: () => false });
  const answers = await Promise.all([new MessageTyper(second).send("x"), new MessageTyper(never).send("x")]);
  expect(answers).toEqual([{ sent: "ok" }, { sent: "unverified" }]);
  expect([second, never].map((one) => one.typed.slice(2))).toEqual([
    ["\r", "\r"],
    ["\r", "\r"],
  ]);
}, 30_000);

test("a message for an engine that reports nothing is typed once and not verified", async () => {
  const one = ui({ takenUp: () => null });
  expect(await new MessageTyper(one).send("x")).toEqual({ sent: "unverified" });
  expect(one.typed).toHaveLength(3);
});

const refusals: Record<string, [changes: Partial<Ui>, why: RegExp]> = {
  starting: [{ activity: { state: "starting" } }, /still starting/],
  working: [{ activity: { state: "working" } }, /is working/],
  waiting: [{ activity: { state: "waiting", what: "rm" } }, /waiting for permission/],
  uncertain: [{ certain: false }, /does not say/],
  "a person is typing": [{ typedAt: performance.now() + 3_600_000 }, /a person is typing/],
};

test.each(Object.entries(refusals))(
  "a message is refused and nothing typed: %s",
  async (_name, [changes, why]) => {
    const one = ui(changes);
    const answer = await new MessageTyper(one).send("1");
    expect(answer).toMatchObject({ sent: "refused", why: expect.stringMatching(why) as string });
    expect(one.typed).toEqual([]);
  },
);

test("the typist lets a person finish who typed a moment ago", async () => {
  const one = ui({ typedAt: performance.now() - 4_800 });
  const began = performance.now();
  const waited: number[] = [];
  one.onWrite = () => void waited.push(performance.now() - began);
  expect(await new MessageTyper(one).send("x")).toEqual({ sent: "ok" });
  expect(waited[0]).toBeGreaterThanOrEqual(150);
});

test("the typist first refuses a message that cannot be typed", async () => {
  const one = ui();
  expect(await new MessageTyper(one).send("\x1b")).toMatchObject({ sent: "refused" });
  expect(one.typed).toEqual([]);
});

test("a prompt that opens after the paste gets no Enter", async () => {
  const one = ui();
  one.onWrite = (keys) => {
    if (keys.startsWith("\x1b[200~")) one.activity = { state: "waiting", what: "rm" };
  };
  expect(await new MessageTyper(one).send("1")).toMatchObject({ sent: "refused" });
  expect(one.typed.filter((keys) => keys === "\r")).toEqual([]);
});

test("the typist waits and looks again at an agent that became idle a moment ago", async () => {
  const one = ui();
  one.sinceMs = one.clock.now();
  const began = performance.now();
  void sleep(50).then(() => (one.activity = { state: "working" }));
  expect(await new MessageTyper(one).send("x")).toMatchObject({
    sent: "refused",
    why: "the agent is working",
  });
  expect(performance.now() - began).toBeGreaterThan(200);
  expect(one.typed).toEqual([]);
});

test("two simultaneous messages are typed one after the other", async () => {
  const one = ui();
  one.takenUp = () => one.typed.at(-1) === "\r";
  // The UI has answered by the next look.
  one.onWrite = (keys) => {
    if (keys === "\r") one.sinceMs = one.clock.now() - 0.001;
  };
  const typist = new MessageTyper(one);
  const answers = await Promise.all([typist.send("first"), typist.send(""), typist.send("second")]);
  expect(answers).toMatchObject([{ sent: "ok" }, { sent: "refused" }, { sent: "ok" }]);
  expect(one.typed).toEqual([
    CLEAR,
    "\x1b[200~first\x1b[201~",
    "\r",
    CLEAR,
    "\x1b[200~second\x1b[201~",
    "\r",
  ]);
});

test("a UI that may begin with one message any moment gets no other until it has answered", async () => {
  const one = ui();
  const typist = new MessageTyper(one);
  const [first, second] = [typist.send("first"), typist.send("second")];
  expect(await first).toEqual({ sent: "ok" });
  one.activity = { state: "working" };
  expect(await second).toEqual({ sent: "refused", why: "the agent is working" });
  expect(one.typed).toHaveLength(3);
  one.activity = { state: "idle" };
  one.sinceMs = one.clock.now();
  expect(await typist.send("third")).toEqual({ sent: "ok" });
});
