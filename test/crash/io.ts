/**
 * Faults below the product: `io.c`, compiled here, comes between our programs and libc. Nothing in `src/` knows of it, so the
 * CLI, the holder, the daemon and SQLite are met where they really write.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** Our programs, by a text that their command line holds. */
export type Program = "reprise.js" | "holder.js" | "daemon.js";

export const ERRNOS = ["EIO", "ENOSPC", "EMFILE", "EACCES", "EROFS"] as const;
export type Errno = (typeof ERRNOS)[number];

/** `half`: in the middle of a write, or after a call that has no middle. */
export type FaultKind =
  | { readonly kind: "count" | "before" | "half" | "after"; readonly n: number }
  | { readonly kind: "once" | "from"; readonly n: number; readonly errno: Errno }
  | { readonly kind: "trace"; readonly n: 0; readonly file: string };

export interface Injection {
  /** For the process under the fault. */
  readonly env: Readonly<Record<string, string>>;
  /** Durable calls so far, of all processes together. */
  count(): number;
  /** How often the fault came true. */
  hits(): number;
  /** Which of the durable calls gave a file its name, the first 256. */
  renames(): readonly number[];
  /** Whether that durable call wrote something, and so can be half done. */
  isWrite(n: number): boolean;
  /** Whether it wrote a page of a transaction that is not committed yet. */
  isPage(n: number): boolean;
}

export class FaultyIo implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "reprise-io-"));
  readonly #library = join(this.#folder, "io.so");
  #made = 0;

  constructor() {
    const source = resolve("test/crash/io.c");
    const flags = ["-O1", "-shared", "-fPIC", "-o", this.#library, source, "-ldl", "-lpthread"];
    execFileSync("gcc", flags, { stdio: "pipe" });
  }

  /** Null: this machine cannot do it, and why. */
  static open(): FaultyIo | string {
    if (process.platform !== "linux") return "files are only intercepted on Linux";
    try {
      return new FaultyIo();
    } catch (error) {
      return `test/crash/io.c cannot be compiled: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /** Only paths below `root` count, and only calls of `program`; null: of everybody. */
  inject(root: string, program: Program | null, fault: FaultKind): Injection {
    this.#made += 1;
    const shared = join(this.#folder, `shared-${this.#made}`);
    writeFileSync(shared, Buffer.alloc(8192));
    // As `struct shared` of io.c lies in memory.
    const bit = (table: number, n: number) =>
      ((readFileSync(shared).readBigUInt64LE(24 + 8 * (table + Math.floor(n / 64))) >> BigInt(n % 64)) &
        1n) ===
      1n;
    const at = (offset: number) => Number(readFileSync(shared).readBigUInt64LE(offset));
    return {
      env: {
        LD_PRELOAD: this.#library,
        CRASH_IO_ROOT: root,
        CRASH_IO_SHARED: shared,
        CRASH_IO_PROGRAM: program ?? "",
        CRASH_IO_MODE: modeOf(fault),
        ...(fault.kind === "trace" ? { CRASH_IO_TRACE: fault.file } : {}),
      },
      count: () => at(0),
      hits: () => at(8),
      renames: () => Array.from({ length: 256 }, (_, n) => at(24 + 8 * n)).filter((n) => n > 0),
      isWrite: (n) => bit(256, n),
      isPage: (n) => bit(384, n),
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function modeOf(fault: FaultKind): string {
  if ("errno" in fault) return `${fault.kind}:${fault.n}:${constants.errno[fault.errno]}`;
  return fault.kind === "count" || fault.kind === "trace" ? fault.kind : `${fault.kind}:${fault.n}`;
}
