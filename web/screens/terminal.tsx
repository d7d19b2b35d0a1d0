/** The agent's own UI, live: view-only until control is taken. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useLink } from "../api.ts";
import { safeLine } from "../format.ts";
import { Button } from "../parts/common.tsx";
import { resize, sizeOf, UNKNOWN_SIZE, useTerminal } from "../parts/terminal.tsx";
import { TerminalLink } from "../terminal-link.ts";
import type { Run } from "../types.ts";

export function LiveTerminal({ run, mayWrite }: { readonly run: Run; readonly mayWrite: boolean }) {
  const { box, terminal } = useTerminal(UNKNOWN_SIZE);
  const [state, setState] = useState<{ control: boolean; ended: boolean; lost: boolean; why?: string }>({
    control: false,
    ended: false,
    lost: false,
  });
  const link = useRef<TerminalLink>();
  const button = useRef<HTMLDivElement>(null);
  const { time, state: connection } = useLink();
  useEffect(() => {
    const mine = new TerminalLink(run.handle, {
      onSize: (size) => resize(terminal, size, box.current),
      onBegin: () => {
        terminal.reset();
        setState({ control: false, ended: false, lost: false });
      },
      onBytes: (data, done) => terminal.write(data, done),
      onControl: (control, why) =>
        setState((old) => ({ ...old, control, ...(why === undefined ? {} : { why }) })),
      onEnd: (ended, why) =>
        setState({ control: false, ended, lost: !ended, ...(why === undefined ? {} : { why }) }),
    });
    link.current = mine;
    const keys = terminal.onData((text) => mine.keys(text));
    // Without control the keys are the page's; with it, one key leads out of the terminal.
    terminal.attachCustomKeyEventHandler((event) => {
      if (!mine.hasControl) return false;
      const isOut = event.ctrlKey && event.key === "]";
      if (isOut && event.type === "keydown") {
        mine.control(false);
        button.current?.querySelector("button")?.focus();
      }
      return !isOut;
    });
    return () => {
      keys.dispose();
      mine.close();
    };
  }, [run.handle, terminal, time]);
  useEffect(() => {
    terminal.options.disableStdin = !state.control;
    terminal.options.cursorBlink = state.control;
    if (state.control) terminal.focus();
  }, [state.control, terminal]);
  const press = useCallback((text: string) => link.current?.keys(text), []);
  const mySize = () => {
    const element = box.current;
    if (element === null) return;
    link.current?.resize(sizeOf(terminal, element));
  };
  return (
    <section class="terminal" aria-label="Terminal">
      <div class="terminal-bar" ref={button}>
        <span class={state.control ? "is-accent" : "dim"} role="status">
          {state.ended
            ? "The agent ended."
            : state.lost || connection !== "live"
              ? "Not connected."
              : state.control
                ? "You have control. Ctrl ] gives it up."
                : "View only."}
          {state.why === undefined ? "" : ` ${safeLine(state.why, 120)}`}
        </span>
        <span class="grow" />
        {mayWrite && !state.ended ? (
          <>
            <Button
              icon="keys"
              kind={state.control ? "plain" : "primary"}
              pressed={state.control}
              onClick={() => link.current?.control(!state.control)}
            >
              {state.control ? "Give up control" : "Take control"}
            </Button>
            {state.control ? (
              <Button onClick={mySize} title="Changes the size for everybody who watches">
                Use my size
              </Button>
            ) : null}
          </>
        ) : null}
      </div>
      <div class="terminal-box" ref={box} />
      {state.control ? <KeyBar onKeys={press} /> : null}
    </section>
  );
}

const KEYS: readonly (readonly [label: string, keys: string])[] = [
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["⇧Tab", "\x1b[Z"],
  ["Ctrl C", "\x03"],
  ["Ctrl D", "\x04"],
  ["↑", "\x1b[A"],
  ["↓", "\x1b[B"],
  ["←", "\x1b[D"],
  ["→", "\x1b[C"],
  ["Enter", "\r"],
];

/** Keys that a phone's keyboard lacks. */
function KeyBar({ onKeys }: { readonly onKeys: (text: string) => void }) {
  return (
    <div class="key-bar" role="toolbar" aria-label="Keys">
      {KEYS.map(([label, keys]) => (
        <button
          key={label}
          type="button"
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onKeys(keys)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
