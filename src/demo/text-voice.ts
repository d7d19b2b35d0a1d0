/** Every persona's voice for people: plain text on stdout, troubles on stderr. */
import type { Output } from "./output.ts";
import type { DemoTrouble, DemoVoice } from "./persona.ts";

export function textVoice(out: Output, forgery: string, words: (trouble: DemoTrouble) => string): DemoVoice {
  let open = false;
  const close = (): void => {
    if (open) out.line("");
    open = false;
  };
  return {
    forgery,
    session: () => undefined,
    turnStarted: () => undefined,
    text(piece) {
      out.raw(piece);
      open = true;
    },
    toolStarted(_id, name, detail) {
      close();
      out.line(`[${name}] ${detail}`);
    },
    toolEnded: ({ output }) => out.line(output.trimEnd()),
    retry: (trouble, _attempt, delayMs) => out.err(`${words(trouble)} Retrying in ${delayMs} ms.`),
    completed() {
      close();
      return 0;
    },
    failed(trouble) {
      close();
      out.err(words(trouble));
      return 1;
    },
    interrupted() {
      close();
      return 130;
    },
  };
}
