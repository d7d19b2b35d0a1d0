/** Codes of errors that Node and the operating system report, such as `ENOENT`. */

/** Null: not an error with a code. */
export function errorCode(error: unknown): string | null {
  return error instanceof Error && "code" in error ? String(error.code) : null;
}

/** An error of a system call; with `codes`, one of these. */
export function isErrno(
  error: unknown,
  ...codes: readonly string[]
): error is NodeJS.ErrnoException & { code: string } {
  const code = errorCode(error);
  if (code === null || !("syscall" in (error as Error))) return false;
  return codes.length === 0 || codes.includes(code);
}
