/** The UI of an actor on a terminal: it reads keys, tells its status, and asks for permission. */
import type { DemoConversation, Stage, DemoStatus, Ui, DemoVoice } from "../../src/demo/persona.ts";
import { ESCAPE, Keys } from "./keys.ts";

/** `shows`: what the UI tells the terminal about its status. */
export function openUi(stage: Stage, shows: (status: DemoStatus) => string = () => ""): Ui {
  const { world, out, journal } = stage;
  const keys = new Keys(out, numberIn(stage, "DEAF"));
  const status = (talk: DemoConversation, now: DemoStatus): void => {
    talk.status?.(now);
    if (world.terminal) out.raw(shows(now));
  };
  /** Whatever is sent while it asks is the answer, and Enter alone takes the first choice: as in the real ones. */
  const asking = (talk: DemoConversation): NonNullable<DemoVoice["ask"]> =>
    async function ask({ what }) {
      await talk.wanted?.(what);
      status(talk, "waiting");
      journal.write("asked", { session: talk.id, what });
      out.line(`${what}\nDo you want to proceed?\n> 1. Yes\n  2. No`);
      const by = await keys.answer();
      const may = by !== ESCAPE && !/^\s*[23n]/i.test(by);
      journal.write(may ? "approved" : "declined", { session: talk.id, what, by });
      await talk.answered?.(may);
      status(talk, "busy");
      return may;
    };
  return {
    async ready() {
      await new Promise((wake) => setTimeout(wake, numberIn(stage, "STARTUP")));
      keys.ready();
    },
    line: () => keys.line(),
    status,
    asking,
  };
}

function numberIn({ world }: Stage, name: "DEAF" | "STARTUP"): number {
  return Number(world.env[`REPRISE_DEMO_${name}`] ?? 0) || 0;
}
