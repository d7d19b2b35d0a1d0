/** The agent's own UI: live, view-only until control is taken; and every recorded attempt, replayed with its timing. */
import { Terminal } from "@xterm/xterm";
import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, get, type Refusal, useLink } from "../api.ts";
import { duration, plural, safeLine } from "../format.ts";
import { advance, framesAt, recordingOf, type TimingLine } from "../model/replay.ts";
import { withoutStyleElements } from "../parts/xterm-styles.ts";
import { Button, Empty, Failure, Note, Skeleton } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import { TerminalLink } from "../terminal-link.ts";
import type { Attempt, Run } from "../types.ts";

withoutStyleElements();

const FONT_PX = 13;
/** Smaller letters are unreadable: the box scrolls instead. */
const SMALLEST_FONT_PX = 8;
const UNKNOWN_SIZE = { cols: 120, rows: 40 };

interface Size {
  readonly cols: number;
  readonly rows: number;
}

/** `lineFeeds`: the output of a pipe, where a line feed begins a new line. */
function makeTerminal(size: Size, lineFeeds: boolean): Terminal {
  return new Terminal({
    ...size,
    scrollback: 5_000,
    fontSize: FONT_PX,
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    cursorBlink: false,
    convertEol: lineFeeds,
    disableStdin: true,
    screenReaderMode: false,
    allowProposedApi: false,
    // Links of the program's own making (OSC 8) are text.
    linkHandler: { activate: () => undefined },
    theme: {
      background: "#101214",
      foreground: "#dcdad5",
      cursor: "#58c4cf",
      selectionBackground: "#3a4a4d",
    },
  });
}

/** Draws the agent's size in the space there is: a smaller letter instead of another size for everybody. */
function fit(terminal: Terminal, box: HTMLElement): void {
  const cell = terminal.element?.querySelector<HTMLElement>(".xterm-screen")?.clientWidth ?? 0;
  if (cell === 0 || box.clientWidth === 0) return;
  const now = terminal.options.fontSize ?? FONT_PX;
  const wanted = Math.floor(((box.clientWidth - 16) / cell) * now * 10) / 10;
  const size = Math.max(SMALLEST_FONT_PX, Math.min(FONT_PX, wanted));
  if (Math.abs(size - now) >= 0.2) terminal.options.fontSize = size;
}

/** One terminal per screen, drawn into a box. */
function useTerminal(size: Size, lineFeeds = false): { box: RefObject<HTMLDivElement>; terminal: Terminal } {
  const box = useRef<HTMLDivElement>(null);
  const terminal = useMemo(() => makeTerminal(size, lineFeeds), []);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    terminal.open(element);
    const observer = new ResizeObserver(() => fit(terminal, element));
    observer.observe(element);
    return () => {
      observer.disconnect();
      terminal.dispose();
    };
  }, [terminal]);
  return { box, terminal };
}

function resize(terminal: Terminal, size: Size, box: HTMLElement | null): void {
  if (size.cols < 1 || size.rows < 1 || size.cols > 1_000 || size.rows > 1_000) return;
  terminal.resize(size.cols, size.rows);
  if (box !== null) requestAnimationFrame(() => fit(terminal, box));
}

// Live.

export function LiveTerminal({ run, mayWrite }: { readonly run: Run; readonly mayWrite: boolean }) {
  const { box, terminal } = useTerminal(UNKNOWN_SIZE);
  const [state, setState] = useState<{ control: boolean; ended: boolean; lost: boolean; why?: string }>({
    control: false,
    ended: false,
    lost: false,
  });
  const link = useRef<TerminalLink>();
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
      <div class="terminal-bar">
        <span class={state.control ? "is-accent" : "dim"} role="status">
          {state.ended
            ? "The agent ended."
            : state.lost || connection !== "live"
              ? "Not connected."
              : state.control
                ? "You have control."
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

/** The size that fits the box at the normal letter size. */
function sizeOf(terminal: Terminal, box: HTMLElement): Size {
  const screen = terminal.element?.querySelector<HTMLElement>(".xterm-screen");
  const scale = FONT_PX / (terminal.options.fontSize ?? FONT_PX);
  const width = ((screen?.clientWidth ?? 800) / terminal.cols) * scale;
  const height = ((screen?.clientHeight ?? 480) / terminal.rows) * scale;
  return {
    cols: Math.max(20, Math.min(300, Math.floor((box.clientWidth - 16) / width))),
    rows: Math.max(8, Math.min(100, Math.floor((box.clientHeight - 8) / height))),
  };
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

// Replay.

const SPEEDS = [0.5, 1, 2, 4, 16];
/** One request of the recording. */
const PIECE = 4 * 1024 * 1024;
/** Longer recordings are shown up to here. */
const MOST_BYTES = 64 * 1024 * 1024;

interface Loaded {
  readonly data: Uint8Array;
  readonly total: number;
  readonly lines: readonly TimingLine[];
  readonly size?: Size | null;
}

async function loadRecording(handle: string, n: number): Promise<Loaded> {
  const base = `/runs/${handle}/attempts/${n}`;
  const timing = await get<{ lines: readonly TimingLine[]; size?: Size | null }>(`${base}/timing`);
  const pieces: Uint8Array[] = [];
  let [length, total] = [0, 1];
  while (length < Math.min(total, MOST_BYTES)) {
    const piece = await bytes(`${base}/output?from=${length}&limit=${PIECE}`);
    total = piece.total;
    if (piece.data.length === 0) break;
    pieces.push(piece.data);
    length += piece.data.length;
  }
  const data = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    data.set(piece, at);
    at += piece.length;
  }
  return { data, total, ...timing };
}

export function Replay({ run, n }: { readonly run: Run; readonly n: number }) {
  const [state, setState] = useState<{ loaded?: Loaded; error?: Refusal }>({});
  useEffect(() => {
    let isWanted = true;
    setState({});
    loadRecording(run.handle, n).then(
      (loaded) => isWanted && setState({ loaded }),
      (error: Refusal) => isWanted && setState({ error }),
    );
    return () => void (isWanted = false);
  }, [run.handle, n]);
  return (
    <section class="terminal" aria-label={`Replay of attempt ${n}`}>
      <div class="terminal-bar">
        <nav class="chips" aria-label="Attempt">
          {run.history.map((attempt: Attempt) => (
            <a
              key={attempt.n}
              class="chip"
              href={`/runs/${run.handle}/replay/${attempt.n}`}
              aria-current={attempt.n === n ? "page" : undefined}
            >
              {attempt.n}
              <span class="hidden"> attempt, {attempt.kind}</span>
            </a>
          ))}
        </nav>
        <span class="grow" />
        <a
          class="button is-plain"
          href={`/api/v1/runs/${run.handle}/attempts/${n}/cast`}
          download={`${run.handle}-${n}.cast`}
        >
          <Icon name="download" />
          asciicast
        </a>
      </div>
      {state.error === undefined ? null : <Failure error={state.error} />}
      {state.loaded === undefined && state.error === undefined ? <Skeleton rows={10} /> : null}
      {state.loaded === undefined ? null : state.loaded.data.length === 0 ? (
        <Empty title="This attempt printed nothing to a terminal">
          <a href={`/runs/${run.handle}`}>Its conversation</a>
        </Empty>
      ) : (
        <Player
          key={`${run.handle} ${n}`}
          loaded={state.loaded}
          attempt={run.history.find((one) => one.n === n)}
        />
      )}
    </section>
  );
}

/** Calls with the milliseconds since the last picture, while it runs. */
function useClock(isRunning: boolean, tick: (elapsedMs: number) => void): void {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    if (!isRunning) return;
    let last = performance.now();
    let timer = requestAnimationFrame(function step(now) {
      latest.current(now - last);
      last = now;
      timer = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(timer);
  }, [isRunning]);
}

interface PlayerProps {
  readonly loaded: Loaded;
  readonly attempt: Attempt | undefined;
}

/** At the start: as the recording says, or the record of the attempt. */
function sizeAtStart({ size, lines }: Loaded, attempt: Attempt | undefined): Size | null {
  const first = lines.find(({ cols }) => cols !== undefined);
  const told =
    first?.cols !== undefined && first.rows !== undefined ? { cols: first.cols, rows: first.rows } : null;
  return size ?? attempt?.terminal ?? told;
}

function Player({ loaded, attempt }: PlayerProps) {
  const [skipIdle, setSkipIdle] = useState(true);
  const [speed, setSpeed] = useState(1);
  const [isPlaying, setPlaying] = useState(true);
  const [at, setAt] = useState(0);
  const recording = useMemo(
    () => recordingOf(loaded.lines, loaded.data.length, skipIdle),
    [loaded, skipIdle],
  );
  const known = useMemo(() => sizeAtStart(loaded, attempt), [loaded]);
  const size = known ?? UNKNOWN_SIZE;
  const isPipe = attempt?.mode === "pipe";
  const { box, terminal } = useTerminal(size, isPipe);
  const shown = useRef(0);
  useEffect(() => {
    const end = framesAt(recording, at);
    if (end < shown.current) {
      terminal.reset();
      resize(terminal, size, box.current);
      shown.current = 0;
    }
    for (; shown.current < end; shown.current += 1) {
      const frame = recording.frames[shown.current];
      if (frame === undefined) break;
      if ("cols" in frame) resize(terminal, frame, box.current);
      else terminal.write(loaded.data.subarray(frame.at, frame.at + frame.n));
    }
  }, [at, recording]);
  useClock(isPlaying, (elapsed) => {
    setAt((old) => {
      const next = advance(old, elapsed, speed, recording.length);
      if (next >= recording.length) setPlaying(false);
      return next;
    });
  });
  const toggle = () => {
    if (at >= recording.length) setAt(0);
    setPlaying(!isPlaying);
  };
  return (
    <>
      {known === null && !isPipe ? (
        <Note level="note">
          This recording does not tell the terminal's size: {size.cols} columns are a guess.
        </Note>
      ) : null}
      {loaded.data.length < loaded.total ? (
        <Note level="warn">Only the first {plural(MOST_BYTES / 1024 / 1024, "MiB", "MiB")} are shown.</Note>
      ) : null}
      <div class="terminal-box" ref={box} />
      <div class="player">
        <Button icon={isPlaying ? "pause" : "play"} kind="primary" onClick={toggle}>
          {isPlaying ? "Pause" : "Play"}
        </Button>
        <input
          type="range"
          class="grow"
          aria-label="Position"
          aria-valuetext={`${duration(at)} of ${duration(recording.length)}`}
          min={0}
          max={Math.max(1, recording.length)}
          step="any"
          value={at}
          onInput={(event) => {
            setPlaying(false);
            setAt(Number(event.currentTarget.value));
          }}
        />
        <span class="mono dim player-time">
          {minutes(at)} / {minutes(recording.length)}
        </span>
        <Speeds speed={speed} onChange={setSpeed} />
        <label class="check">
          <input
            type="checkbox"
            checked={skipIdle}
            onChange={(event) => {
              setAt(0);
              setSkipIdle(event.currentTarget.checked);
            }}
          />
          Skip silence
        </label>
      </div>
    </>
  );
}

function Speeds({ speed, onChange }: { readonly speed: number; readonly onChange: (speed: number) => void }) {
  return (
    <div class="chips" role="group" aria-label="Speed">
      {SPEEDS.map((value) => (
        <button
          key={value}
          type="button"
          class="chip"
          aria-pressed={speed === value}
          onClick={() => onChange(value)}
        >
          {value}×
        </button>
      ))}
    </div>
  );
}

const minutes = (ms: number): string => {
  const seconds = Math.floor(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
};
