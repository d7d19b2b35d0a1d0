/** Keeps the typed input of a UI in memory, to decide whether a conversation can have begun with it. */

/** More than a person types. Later input is dropped, and then nothing can be ruled out. */
const MOST_CHARACTERS = 256 * 1024;

export class Typed {
  #text = "";
  #isCut = false;

  take(data: Buffer | string): void {
    this.#text += (typeof data === "string" ? Buffer.from(data) : data).toString("latin1");
    this.#isCut ||= this.#text.length > MOST_CHARACTERS;
    this.#text = this.#text.slice(0, MOST_CHARACTERS);
  }

  /** False: the user never pressed Enter, so no message was sent. */
  get entered(): boolean {
    return ENTER.test(this.#text);
  }

  /** False: the user pressed Enter only on empty input, as in dialogs, and on commands such as `/quit`. */
  get spoke(): boolean {
    const lines = Buffer.from(this.#text, "latin1").toString().split(ENTER).slice(0, -1);
    return (
      this.#isCut || lines.some((line) => !/^\s*(?:\/|$)/.test(withoutSequences(line)) || KEYS.test(line))
    );
  }

  /** Whether a conversation with this opening can have begun here. Null: its opening is unknown. */
  mayHaveSaid(opening: string | null): boolean {
    if (!this.entered) return false;
    const text = Buffer.from(this.#text, "latin1").toString();
    const words = counted(withoutSequences(text));
    if (words.size === 0) return false;
    // Keys and words that insert other text: history, completion, commands, mentions.
    if (this.#isCut || opening === null || RECALLS.test(text)) return true;
    return [...counted(opening)].every(([character, times]) => (words.get(character) ?? 0) >= times);
  }
}

// oxlint-disable-next-line no-control-regex -- as terminals send it
const ENTER = /[\r\n]|\u001b\[(?:13|57414)(?:;[\d:]*)*u/;
/** Keys that recall earlier input. */
// oxlint-disable-next-line no-control-regex -- these are the keys
const KEYS = /\u001b(?:\[[\d;:]*|O)[AB]|[\u000e\u0010\u0012\u0016\u0019]/;
// oxlint-disable-next-line no-control-regex -- these are the keys
const RECALLS = /\u001b(?:\[[\d;:]*|O)[A-D]|[\t\u000e\u0010\u0012\u0016\u0019/@!#]/;

function withoutSequences(text: string): string {
  return (
    text
      // oxlint-disable-next-line no-control-regex -- what terminals send besides text
      .replaceAll(/\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[P_^][^\u001b]*\u001b\\)/g, "")
      // oxlint-disable-next-line no-control-regex -- as above
      .replaceAll(/\u001b(?:\[[\d;:?<>=]*[ -/]*[@-~]|O.|.)/g, "")
  );
}

/** The number of each character; order and white space change during editing. */
function counted(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  // oxlint-disable-next-line no-control-regex -- keys that type no text
  for (const one of text.replaceAll(/[\s\u0000-\u001f\u007f]/g, ""))
    counts.set(one, (counts.get(one) ?? 0) + 1);
  return counts;
}
