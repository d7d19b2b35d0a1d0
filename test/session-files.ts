/** An engine's session store made of texts: path → content. Later entries were written later. */
import type { FileEntry, SessionFiles } from "../src/engines/engine.ts";

export function fakeFiles(contents: Readonly<Record<string, string>>): SessionFiles {
  const paths = Object.keys(contents);
  const entry = (path: string): FileEntry | null => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const at = paths.indexOf(path);
    if (at !== -1)
      return { name, directory: false, size: contents[path]?.length ?? 0, mtimeMs: 1000 + 1000 * at };
    return paths.some((other) => other.startsWith(`${path}/`))
      ? { name, directory: true, size: 0, mtimeMs: 0 }
      : null;
  };
  return {
    list(directory) {
      const inside = paths.filter((path) => path.startsWith(`${directory}/`));
      const names = new Set(inside.map((path) => path.slice(directory.length + 1).split("/")[0]));
      return Promise.resolve([...names].flatMap((name) => entry(`${directory}/${name}`) ?? []));
    },
    stat: (path) => Promise.resolve(entry(path)),
    head: (path, bytes) => Promise.resolve(contents[path]?.slice(0, bytes) ?? null),
    tail: (path, bytes) => Promise.resolve(contents[path]?.slice(-bytes) ?? null),
    lines(path, from, bytes) {
      const text = contents[path];
      if (text === undefined) return Promise.resolve(null);
      const behind = from > text.length ? 0 : from;
      const start = Math.max(behind, text.length - bytes);
      const end = text.lastIndexOf("\n") + 1;
      const first = start === behind ? start : text.indexOf("\n", start) + 1;
      const lines = text.slice(first, Math.max(first, end)).split("\n").slice(0, -1);
      return Promise.resolve({ lines, next: Math.max(start, end) });
    },
    rows: () => Promise.resolve(null),
  };
}
