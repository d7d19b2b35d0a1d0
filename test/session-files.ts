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
    rows: () => Promise.resolve(null),
  };
}
