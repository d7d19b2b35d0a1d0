/** The meanings of the exit codes. `docs/errors.md` and `reprise help exit-codes` are made from them. */
export const EXIT_CODES: Readonly<Record<string, string>> = {
  0: "completed",
  1: "the attempt did not complete; `doctor`: something needs attention",
  2: "usage: the command line, a config file or a name in them is wrong",
  3: "not found: a run, an attempt, a session, a directory",
  4: "busy: another process uses it",
  5: "stored data is damaged",
  6: "an engine or a tool is missing or unsupported",
  7: "storage failure",
  8: "denied by the system, or refused as unsafe",
  10: "partial failure: some issues of a batch, or some of several removals, failed",
  70: "a bug in Reprise; please report it",
  75: "try again later: rate limited, overloaded or no network; the reset time is in the message",
  124: "`wait`: the `--timeout` expired",
  129: "ended by SIGHUP",
  130: "cancelled by the user (Ctrl-C, `reprise stop`)",
  143: "ended by SIGTERM",
};
