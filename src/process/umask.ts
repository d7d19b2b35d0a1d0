/**
 * Reprise's files are private to their owner; files of agents, tools and gates follow the user's umask. The state is
 * global to the process, because the bundle may hold several copies of this module.
 */
const USERS = Symbol.for("reprise.umask");
const shared = globalThis as { [USERS]?: number };

/** Called once, before Reprise makes its first file. */
export function keepFilesPrivate(): void {
  shared[USERS] ??= process.umask(0o077);
}

/** On SIGUSR1, Node opens a port for debuggers. Reprise never listens on TCP. */
export function keepDebuggersOut(): void {
  process.on("SIGUSR1", () => {});
}

/** Programs that `start` starts synchronously get the umask that Reprise was started with. */
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
