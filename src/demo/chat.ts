/** The agent on a terminal: reads messages, answers each as a turn, understands `/exit`, `/clear` and `/size`. */
import { WriteStream } from "node:tty";
import { messageFacts } from "./journal.ts";
import type { DemoConversation, Persona, Request, Stage } from "./persona.ts";
import { play } from "./play.ts";
import { planOf } from "./steps.ts";

export interface Chat extends Stage {
  readonly persona: Persona;
  readonly request: Request;
  readonly nextLine: () => Promise<string | null>;
}

export async function chat(given: Chat, first: DemoConversation): Promise<number> {
  const { persona, world, out, journal } = given;
  const ui = world.terminal ? (persona.ui?.(given) ?? null) : null;
  const room: Chat = ui === null ? given : { ...given, nextLine: () => ui.line() };
  const request: Request = { ...room.request, format: "text" };
  let talk = first;
  let earlier = [...first.earlier];
  const tell = (status: "idle" | "busy"): void =>
    ui === null ? talk.status?.(status) : ui.status(talk, status);
  persona.enter?.(talk.id, world);
  process.once("SIGINT", () => {
    out.line("");
    process.exit(farewell(room, talk));
  });
  await ui?.ready();
  out.line(`${persona.id} is here. /clear starts a new conversation, /exit leaves.`);
  let next = request.prompt;
  while (true) {
    tell("idle");
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
      tell("busy");
      journal.write("message", { session: talk.id, ...messageFacts(line) });
      const own = persona.speak(request, talk, out);
      const voice = ui === null ? own : { ...own, ask: ui.asking(talk) };
      const steps = planOf(line);
      const turn = { ...room, request, conversation: talk, voice, env: world.env, message: line, earlier };
      const code = await play(steps, turn);
      if (steps.some(({ step }) => step === "exit")) return code ?? 0;
      earlier.push(line);
    }
  }
}

/** A session exists once the user has said something in it. */
function farewell({ persona, out, journal }: Chat, talk: DemoConversation): number {
  out.line(`Resume this session with:\n${persona.id} --resume ${talk.id}`);
  journal.write("end", { session: talk.id, code: 0 });
  return 0;
}
