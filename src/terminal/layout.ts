/** Owns positions on the screen: rows, columns, and the visible part of a long text. Pure. */
import type { Style } from "../lib/palette.ts";
import { widthOf } from "../lib/width.ts";
import { cutLine, fit, type Line } from "./text.ts";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** Rows or columns. Parts with `"rest"` share the remaining space evenly. */
export type PartExtent = number | "rest";

/** `draw` gets the size of its part. Rows that it does not fill stay blank; surplus lines are dropped. */
export type Part = readonly [extent: PartExtent, draw: (size: Size) => readonly Line[]];

/** Parts from top to bottom, as high as `size` in total. */
export function stacked(size: Size, parts: readonly Part[]): Line[] {
  const heights = split(size.rows, ...parts.map(([extent]) => extent));
  return parts.flatMap(([, draw], at) => {
    const rows = heights[at] ?? 0;
    return page(draw({ ...size, rows }), rows);
  });
}

/** Parts side by side. Lines wider than their part are cut. */
export function beside(size: Size, parts: readonly Part[]): Line[] {
  const widths = split(size.columns, ...parts.map(([extent]) => extent));
  const drawn = parts.map(([, draw], at) => draw({ ...size, columns: widths[at] ?? 0 }));
  return Array.from({ length: size.rows }, (_, row) =>
    drawn.flatMap((lines, at) => {
      const columns = widths[at] ?? 0;
      const line = cutLine(lines[row] ?? [], columns);
      const width = at === drawn.length - 1 ? columns : widthOf(line.map(({ text }) => text).join(""));
      return [...line, { text: " ".repeat(columns - width) }];
    }),
  );
}

/** Each part's share of `total`. If the fixed parts exceed the total, the last ones get less. */
export function split(total: number, ...extents: readonly PartExtent[]): number[] {
  let free = total;
  const take = (wanted: number) => {
    const taken = clamp(wanted, free);
    free -= taken;
    return taken;
  };
  const fixed = extents.map((extent) => (extent === "rest" ? null : take(extent)));
  let sharing = fixed.filter((own) => own === null).length;
  return fixed.map((own) => own ?? take(Math.floor(free / sharing--)));
}

/** Exactly this many rows of a text, from the line `top`. */
export function page(lines: readonly Line[], rows: number, top = 0): Line[] {
  return Array.from({ length: Math.max(0, rows) }, (_, at) => lines[top + at] ?? []);
}

/** The first line of a page that shows the cursor: as near to `top` as possible, without blank rows. */
export function scrolledTo(cursor: number, top: number, rows: number, length: number): number {
  if (rows < 1) return top;
  return clamp(Math.min(Math.max(top, cursor - rows + 1), cursor), length - rows);
}

/** Never negative, even if `most` is. */
export function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}

/** A rule across the screen with a title. */
export function ruled(title: string, columns: number, style: Style = "accent"): Line {
  return [{ text: fit(`──${title} ${"─".repeat(columns)}`, columns).replace("…", "─"), style }];
}
