/** Durations as people type and read them. */

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
const MAX = 365 * UNITS.d;

/** Milliseconds for `250ms`, `90s`, `15m`, `1h30m`, `2d`, `0` and `0s`; null for anything else and beyond 365 days. */
export function parseDuration(text: string): number | null {
  if (text === "0") return 0;
  const parts = /^(?:(\d{1,12})d)?(?:(\d{1,12})h)?(?:(\d{1,12})m)?(?:(\d{1,12})s)?(?:(\d{1,12})ms)?$/.exec(
    text,
  );
  if (parts === null || text === "") return null;
  const total = Object.values(UNITS).reduce((sum, unit, at) => sum + Number(parts[at + 1] ?? 0) * unit, 0);
  return total <= MAX ? total : null;
}

/** Exact, in the form that `parseDuration` reads: `1h30m`, `1m30s` for 90 seconds, `0` for nothing. */
export function typedDuration(ms: number): string {
  let rest = ms;
  const parts = Object.entries(UNITS).map(([name, unit]) => {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    return count === 0 ? "" : `${count}${name}`;
  });
  return parts.join("") || "0";
}

/** Two units at most: `2 h 10 m`, `45 s`, `1.2 s`, `120 ms`. A negative duration is shown as zero. */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1_000) return `${whole} ms`;
  if (whole < 10_000) return `${Math.floor(whole / 100) / 10} s`;
  const seconds = Math.floor(whole / 1_000);
  const steps = [
    ["d", Math.floor(seconds / 86_400)],
    ["h", Math.floor(seconds / 3_600) % 24],
    ["m", Math.floor(seconds / 60) % 60],
    ["s", seconds % 60],
  ] as const;
  const first = steps.findIndex(([, count]) => count > 0);
  return steps
    .slice(first, first + 2)
    .filter(([, count]) => count > 0)
    .map(([unit, count]) => `${count} ${unit}`)
    .join(" ");
}

/** Local hours and minutes, with the date unless it is the day of `nowMs`. Text that is not a time stays unchanged. */
export function localTime(iso: string, nowMs: number): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const two = (value: number) => String(value).padStart(2, "0");
  const day = (date: Date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return day(at) === day(new Date(nowMs)) ? time : `${day(at)} ${time}`;
}

/** Only the largest unit: `3 h`, `12 d`, `now`. */
export function age(iso: string, nowMs: number): string {
  const ms = nowMs - Date.parse(iso);
  if (Number.isNaN(ms)) return "?";
  if (ms < 1_000) return "now";
  return formatDuration(ms).split(" ").slice(0, 2).join(" ").replace(/\.\d/, "");
}

/** False: the text begins with no date, or with a day that its month does not have, such as 2026-02-30. */
export function beginsWithDay(text: string): boolean {
  const [, day] = /^(\d{4}-\d\d-\d\d)(?!\d)/.exec(text) ?? [];
  const ms = Date.parse(day === undefined ? "" : `${day}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(`${day ?? ""}T`);
}
