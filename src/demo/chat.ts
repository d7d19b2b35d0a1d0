/** The agent on a terminal: reads messages, answers each as a turn, understands `/exit`, `/clear` and `/size`. */
import { WriteStream } from "node:tty";
import type { Journal } from "./journal.ts";
import { messageFacts } from "./journal.ts";
import { ESCAPE, Keys } from "./keys.ts";
import type { Output } from "./output.ts";
import type { Conversation, Persona, Request, Status, Voice, World } from "./persona.ts";
import { play } from "./play.ts";
import { planOf } from "./steps.ts";

export interface Chat {
  readonly persona: Persona;
  readonly request: Request;
  readonly world: World;
  readonly out: Output;
  readonly journal: Journal;
  readonly nextLine: () => Promise<string | null>;
}

export async function chat(given: Chat, first: Conversation): Promise<number> {
  const { persona, world, out, journal } = given;
  const keys = persona.readsKeys === true && world.terminal ? new Keys(out, numberIn(world, "DEAF")) : null;
  const room: Chat = keys === null ? given : { ...given, nextLine: () => keys.line() };
  const request: Request = { ...room.request, format: "text" };
  let talk = first;
  let earlier = [...first.earlier];
  persona.enter?.(talk.id, world);
  process.once("SIGINT", () => {
    out.line("");
    process.exit(farewell(room, talk));
  });
  await new Promise((wake) => setTimeout(wake, numberIn(world, "STARTUP")));
  keys?.ready();
  out.line(`${persona.id} is here. /clear starts a new conversation, /exit leaves.`);
  let next = request.prompt;
  while (true) {
    tell(room, talk, "idle");
    if (next === null) out.raw(`${persona.id}> `);
    const line: string | null = next ?? (await room.nextLine());
    next = null;
    if (line === null || line.trim() === "/exit") return farewell(room, talk);
    if (line.trim() === "/clear") {
      talk = await persona.open({ ...request, how: "new", session: null }, world);
      earlier = [];
      persona.enter?.(talk.id, world);
      journal.write("session", { session: talk.id, how: "clear" });
      out.line("A new conversation begins.");
    } else if (line.trim() === "/size") out.line(`size ${new WriteStream(1).getWindowSize().join("x")}`);
    else if (line.trim() !== "") {
      tell(room, talk, "busy");
      journal.write("message", { session: talk.id, ...messageFacts(line) });
      const voice = {
        ...persona.speak(request, talk, out),
        ...(keys === null ? {} : asking(room, talk, keys)),
      };
      const steps = planOf(line);
      const turn = { ...room, request, conversation: talk, voice, env: world.env, message: line, earlier };
      const code = await play(steps, turn);
      if (steps.some(({ step }) => step === "exit")) return code ?? 0;
      earlier.push(line);
    }
  }
}

function tell({ persona, world, out }: Chat, talk: Conversation, status: Status): void {
  talk.status?.(status);
  if (world.terminal && persona.shows !== undefined) out.raw(persona.shows(status));
}

/** Whatever is sent while it asks is the answer, and Enter alone takes the first choice: as in the real ones. */
function asking(room: Chat, talk: Conversation, keys: Keys): Required<Pick<Voice, "ask">> {
  const { out, journal } = room;
  return {
    async ask({ what }) {
      await talk.wanted?.(what);
      tell(room, talk, "waiting");
      journal.write("asked", { session: talk.id, what });
      out.line(`${what}\nDo you want to proceed?\n> 1. Yes\n  2. No`);
      const by = await keys.answer();
      const may = by !== ESCAPE && !/^\s*[23n]/i.test(by);
      journal.write(may ? "approved" : "declined", { session: talk.id, what, by });
      await talk.answered?.(may);
      tell(room, talk, "busy");
      return may;
    },
  };
}

function numberIn({ env }: World, name: "DEAF" | "STARTUP"): number {
  return Number(env[`REPRISE_DEMO_${name}`] ?? 0) || 0;
}

/** A session exists once something was said in it. */
function farewell({ persona, out, journal }: Chat, talk: Conversation): number {
  out.line(`Resume this session with:\n${persona.id} --resume ${talk.id}`);
  journal.write("end", { session: talk.id, code: 0 });
  return 0;
}
