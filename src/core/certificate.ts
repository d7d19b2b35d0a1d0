/**
 * Messages from the certify program (`dist/certify.js`) to `reprise doctor --certify`: one JSON object per line, in the
 * order of events.
 */

/** broke: an assumption of Reprise does not hold. new: the engine does something unknown, and nothing broke. */
export type CheckResult = "passed" | "broke" | "new" | "not checked" | "not applicable";

export interface Check {
  readonly engine: string;
  /** The guarantee that the check proves, in a user's words. */
  readonly check: string;
  readonly result: CheckResult;
  /** What broke, or why it was not checked: one harmless line. Null: nothing to report. */
  readonly why: string | null;
  /** The engine's output and command line when something broke: untrusted text, made harmless. */
  readonly evidence: readonly string[];
  readonly ms: number;
}

export type CertifyLine =
  /** How the engines are cut off from the network. */
  | { readonly type: "begin"; readonly network: string }
  /** The engine's checks follow, each once, as they end. */
  | {
      readonly type: "engine";
      readonly engine: string;
      readonly version: string | null;
      readonly checks: readonly string[];
    }
  | ({ readonly type: "check" } & Check)
  /** Reprise cannot check anything. The code is a fault's code. */
  | {
      readonly type: "fatal";
      readonly code: "engine_cannot" | "storage_failed" | "storage_full";
      readonly message: string;
    };
