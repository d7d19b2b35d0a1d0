/** Cuts long text to a bounded length, from its middle: results of tools say most at their beginning and their end. */

export interface Bounded {
  readonly text: string;
  /** Characters left out, where the text has a line with an ellipsis. */
  readonly cut: number;
}

/** The beginning gets a quarter of `most` characters, the end the rest. */
export function bounded(text: string, most: number): Bounded {
  if (text.length <= most) return { text, cut: 0 };
  const head = whole(text, Math.floor(most / 4));
  const tail = whole(text, text.length - (most - Math.floor(most / 4)));
  return { text: `${text.slice(0, head)}\n…\n${text.slice(tail)}`, cut: tail - head };
}

/** A place that divides no character in two. */
function whole(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff ? at - 1 : at;
}

/** More than a recording keeps, so that no secret at the edge of this cut is kept in part. */
const WINDOW = 64 * 1024;

/** The result of a tool as fields of its event. */
export function outputOf(text: string | undefined): { readonly output?: string; readonly cut?: number } {
  if (text === undefined || text.trim() === "") return {};
  const { text: output, cut } = bounded(text, WINDOW);
  return { output, ...(cut === 0 ? {} : { cut }) };
}
