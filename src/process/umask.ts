/**
 * Two minds about files: what Reprise makes is for its owner alone, what agents, tools and gates make is as their user
 * wants it. Known for the whole process, not for one copy of this module: the bundle may hold several.
 */
const USERS = Symbol.for("reprise.umask");
const shared = globalThis as { [USERS]?: number };

/** Once, before the first file is made. */
export function keepFilesPrivate(): void {
  shared[USERS] ??= process.umask(0o077);
}

/** Node opens a port for debuggers when it gets SIGUSR1. Nothing of Reprise listens on TCP. */
export function keepDebuggersOut(): void {
  process.on("SIGUSR1", () => {});
}

/** What `start` starts, and at once, gets the umask that Reprise was started with. */
export function asUser<Started>(start: () => Started): Started {
  const users = shared[USERS];
  if (users === undefined) return start();
  const own = process.umask(users);
  try {
    return start();
  } finally {
    process.umask(own);
  }
}
