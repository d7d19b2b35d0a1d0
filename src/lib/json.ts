/** Reads untrusted JSON: never throws, never trusts a shape. */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Undefined: not JSON. (JSON has no undefined.) */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Undefined: not JSON, or not an object. */
export function parseObject(text: string): JsonObject | undefined {
  // A failing JSON.parse costs about ten microseconds; the first and last character rule out most lines.
  if (!looksLikeObject(text)) return undefined;
  const value = parseJson(text);
  return isObject(value) ? value : undefined;
}

function looksLikeObject(text: string): boolean {
  let first = 0;
  let last = text.length - 1;
  while (isBlank(text.charCodeAt(first))) first += 1;
  while (last > first && isBlank(text.charCodeAt(last))) last -= 1;
  return text[first] === "{" && text[last] === "}";
}

/** JSON white space: space, tab, line feed, carriage return. */
function isBlank(code: number): boolean {
  return code === 32 || code === 9 || code === 10 || code === 13;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function stringIn(value: unknown, key: string): string | undefined {
  const found = fieldIn(value, key);
  return typeof found === "string" ? found : undefined;
}

export function numberIn(value: unknown, key: string): number | undefined {
  const found = fieldIn(value, key);
  return typeof found === "number" ? found : undefined;
}

export function objectIn(value: unknown, key: string): JsonObject | undefined {
  const found = fieldIn(value, key);
  return isObject(found) ? found : undefined;
}

export function arrayIn(value: unknown, key: string): readonly unknown[] {
  const found = fieldIn(value, key);
  return Array.isArray(found) ? found : [];
}

/** Own fields only: a name from `Object.prototype` is not a field. */
export function fieldIn(value: unknown, key: string): unknown {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/**
 * Whether any object in a JSON text repeats a key. `JSON.parse` takes the last value and other readers the first, so such a
 * text is ambiguous. The text must be valid JSON.
 */
export function hasDuplicateKeys(text: string): boolean {
  /** The keys of each open object, innermost last. Null: an open array. */
  const open: (Set<string> | null)[] = [];
  let keyNext = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      const start = at;
      at += 1;
      while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      const keys = open.at(-1);
      if (!keyNext || keys === undefined || keys === null) continue;
      const key = String(parseJson(text.slice(start, at + 1)));
      if (keys.has(key)) return true;
      keys.add(key);
      keyNext = false;
    } else if (char === "{" || char === "[") {
      open.push(char === "{" ? new Set() : null);
      keyNext = char === "{";
    } else if (char === "}" || char === "]") open.pop();
    else if (char === ",") keyNext = true;
  }
  return false;
}
