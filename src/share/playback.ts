/** What the keys do to a replay, and where it is in time. Pure. */
import type { Key } from "../terminal/terminal.ts";

export interface Playback {
  /** Milliseconds of played time: the recording with shortened pauses. */
  readonly positionMs: number;
  readonly speed: number;
  readonly paused: boolean;
  /** Plays at once until the next pause. */
  readonly skipping: boolean;
  /** left: by a key. interrupted: Ctrl-C. */
  readonly leaving: "left" | "interrupted" | null;
}

export const MIN_SPEED = 0.1;
export const MAX_SPEED = 100;
const SPEEDS = [MIN_SPEED, 0.25, 0.5, 1, 2, 4, 8, 16, 32, MAX_SPEED];

export const beginning = (speed: number): Playback => ({
  positionMs: 0,
  speed,
  paused: false,
  skipping: false,
  leaving: null,
});

export function pressed(state: Playback, key: Key): Playback {
  switch (key) {
    case "space":
      return { ...state, paused: !state.paused, skipping: false };
    case "+":
    case "=":
      return { ...state, speed: SPEEDS.find((speed) => speed > state.speed) ?? MAX_SPEED };
    case "-":
      return { ...state, speed: SPEEDS.findLast((speed) => speed < state.speed) ?? MIN_SPEED };
    case "right":
      return { ...state, skipping: true, paused: false };
    case "q":
    case "escape":
      return { ...state, leaving: "left" };
    case "ctrl-c":
      return { ...state, leaving: "interrupted" };
    default:
      return state;
  }
}

/** The state after the given number of milliseconds on the viewer's clock. */
export function passed(state: Playback, ms: number): Playback {
  return state.paused ? state : { ...state, positionMs: state.positionMs + ms * state.speed };
}

/** `1:02:03`, `02:03`. */
export function clockText(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown
    .map((part, at) => (at === 0 && shown.length === 3 ? String(part) : String(part).padStart(2, "0")))
    .join(":");
}
