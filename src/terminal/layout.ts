/** Owns the places of things on a screen: rows, columns, and which part of a long text is shown. Pure. */
import { widthOf } from "../lib/width.ts";
import { cutLine, fit, type Line, type Style } from "./text.ts";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** Rows or columns. Parts with `"rest"` share evenly what the fixed parts leave. */
export type Extent = number | "rest";

/** `draw` gets the size of its part. Rows that it does not fill stay blank; lines that do not fit are not shown. */
export type Part = readonly [extent: Extent, draw: (size: Size) => readonly Line[]];

/** Parts one below the other, together as high as `size` says. */
export function stacked(size: Size, parts: readonly Part[]): Line[] {
  const heights = split(size.rows, ...parts.map(([extent]) => extent));
  return parts.flatMap(([, draw], at) => {
    const rows = heights[at] ?? 0;
    return page(draw({ ...size, rows }), rows);
  });
}

/** Parts side by side. A line that is wider than its part is cut. */
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

/** How much of `total` each part gets. If the fixed parts want more than the total, the last of them get less. */
export function split(total: number, ...extents: readonly Extent[]): number[] {
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

/** Exactly so many rows of a text, from the line `top` on. */
export function page(lines: readonly Line[], rows: number, top = 0): Line[] {
  return Array.from({ length: Math.max(0, rows) }, (_, at) => lines[top + at] ?? []);
}

/** The first line of a page that shows the cursor: as near to `top` as possible, and with no row left blank. */
export function scrolledTo(cursor: number, top: number, rows: number, length: number): number {
  if (rows < 1) return top;
  return clamp(Math.min(Math.max(top, cursor - rows + 1), cursor), length - rows);
}

/** Never negative, even if `most` is. */
export function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}

/** A rule across the screen with a title in it. */
export function ruled(title: string, columns: number, style: Style = "accent"): Line {
  return [{ text: fit(`──${title} ${"─".repeat(columns)}`, columns).replace("…", "─"), style }];
}
