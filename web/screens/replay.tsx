/** A recorded attempt, replayed with its real timing: speed, skipped silence, scrubbing. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, get, type Refusal } from "../api.ts";
import { duration, plural } from "../format.ts";
import { advance, framesAt, recordingOf, type TimingLine } from "../model/replay.ts";
import { Button, Empty, Failure, Note, Skeleton } from "../parts/common.tsx";
import { resize, type Size, UNKNOWN_SIZE, useTerminal } from "../parts/terminal.tsx";
import type { Attempt, Run } from "../types.ts";

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
