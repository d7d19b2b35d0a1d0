/**
 * The shape of a regular expression, as far as an attacker needs it: characters that its parts accept, texts that match
 * or nearly do, and for each repetition what leads to it and what it repeats.
 */

export interface Shape {
  /** One character for each part that consumes one. */
  readonly atoms: readonly string[];
  /** Accepted by the whole, apart from what stands around it. */
  readonly sample: string;
  readonly repetitions: readonly { readonly before: string; readonly unit: string }[];
}

type Part =
  | { readonly is: "character"; readonly text: string }
  | { readonly is: "choice"; readonly of: readonly (readonly Part[])[] }
  | { readonly is: "repeat"; readonly part: Part; readonly min: number; readonly max: number }
  | { readonly is: "nothing"; readonly of: readonly (readonly Part[])[] };

export function shapeOf(source: string, flags: string): Shape {
  const parts = new Parser(source, flags.includes("v")).choices();
  const accepts = (atom: string) => accepted(atom, flags.replace(/[gy]/g, ""));
  const atoms: string[] = [];
  const repetitions: { before: string; unit: string }[] = [];
  const sampleOf = (part: Part): string => {
    if (part.is === "character") return accepts(part.text);
    if (part.is === "nothing") return "";
    if (part.is === "choice") return (part.of[0] ?? []).map(sampleOf).join("");
    return sampleOf(part.part).repeat(Math.min(64, Math.max(1, part.min)));
  };
  const visit = (options: readonly (readonly Part[])[], start: string): void => {
    for (const option of options) {
      let before = start;
      for (const part of option) {
        if (part.is === "character") atoms.push(accepts(part.text));
        else if (part.is !== "repeat") visit(part.of, before);
        else {
          if (part.max > 1) repetitions.push({ before, unit: sampleOf(part.part) });
          visit([[part.part]], before);
        }
        before += sampleOf(part);
      }
    }
  };
  visit(parts, "");
  return {
    atoms: [...new Set(atoms)],
    sample: sampleOf({ is: "choice", of: parts }),
    repetitions: repetitions.filter(({ unit }) => unit !== ""),
  };
}

const CANDIDATES = Array.from(
  "a1 -_.:/\"'{}[]()<>#,;=\\@\n\t\r|*`~^$+?!%&ABZz09é中😀\u001b\u0000\u0007\u009b\u200b\u202e",
);

/** A character that one part of an expression accepts. */
function accepted(atom: string, flags: string): string {
  const one = new RegExp(`^${atom}$`, flags);
  return [...CANDIDATES, ...Array.from(atom)].find((candidate) => one.test(candidate)) ?? "";
}

class Parser {
  #at = 0;
  readonly #source: string;
  readonly #nested: boolean;

  constructor(source: string, nestedClasses: boolean) {
    this.#source = source;
    this.#nested = nestedClasses;
  }

  choices(): Part[][] {
    const all: Part[][] = [[]];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ")") {
      if (this.#take(/\|/y) !== null) all.push([]);
      else {
        const part = this.#part();
        all.at(-1)?.push(this.#repeated(part));
      }
    }
    return all;
  }

  #part(): Part {
    if (this.#take(/\^|\$|\\b|\\B/y) !== null) return { is: "nothing", of: [] };
    if (this.#take(/\\[1-9]|\\k<[^>]*>/y) !== null) return { is: "nothing", of: [] };
    const around = this.#take(/\((?:\?<?[=!])/y);
    if (around !== null) return { is: "nothing", of: this.#closed() };
    if (this.#take(/\((?:\?:|\?<[^>]*>|\?[ims-]+:)?/y) !== null) return { is: "choice", of: this.#closed() };
    if (this.#source[this.#at] === "[") return { is: "character", text: this.#characterClass() };
    const text = this.#take(/\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|[pP]\{[^}]*\}|c[A-Z]|.)|./suy);
    return { is: "character", text: text ?? "" };
  }

  #closed(): Part[][] {
    const inner = this.choices();
    this.#at += 1;
    return inner;
  }

  #characterClass(): string {
    const from = this.#at;
    let depth = 0;
    do {
      const character = this.#source[this.#at];
      if (character === "\\") this.#at += 1;
      else if (character === "[" && (depth === 0 || this.#nested)) depth += 1;
      else if (character === "]") depth -= 1;
      this.#at += 1;
    } while (depth > 0 && this.#at < this.#source.length);
    return this.#source.slice(from, this.#at);
  }

  #repeated(part: Part): Part {
    const counts = this.#take(/[*+?]\??|\{\d+(?:,\d*)?\}\??/y);
    if (counts === null) return part;
    const [, low, comma, high] = /^\{(\d+)(,)?(\d*)\}/.exec(counts) ?? [];
    const min = low === undefined ? (counts.startsWith("+") ? 1 : 0) : Number(low);
    const most = high === undefined || high === "" ? Number.POSITIVE_INFINITY : Number(high);
    const max = counts.startsWith("?") ? 1 : low !== undefined && comma === undefined ? min : most;
    return { is: "repeat", part, min, max };
  }

  #take(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0] ?? null;
    this.#at += found?.length ?? 0;
    return found;
  }
}
