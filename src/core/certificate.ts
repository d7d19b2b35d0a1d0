/**
 * What the certify program (`dist/certify.js`) tells `reprise doctor --certify`: one JSON object a line, in the order
 * in which it happens.
 */

/** passed. broke: what Reprise relies on is not so. new: a thing it does not know, and nothing broke. */
export type CheckResult = "passed" | "broke" | "new" | "not checked" | "not applicable";

export interface Check {
  readonly engine: string;
  /** What is proved, in the words of a user. */
  readonly check: string;
  readonly result: CheckResult;
  /** What broke, or why it was not checked: one line, made harmless. Null: nothing to say. */
  readonly why: string | null;
  /** The engine's words and its command line, where something broke: lines of foreign text, made harmless. */
  readonly evidence: readonly string[];
  readonly ms: number;
}

export type CertifyLine =
  /** How the engines are kept from the network. */
  | { readonly type: "begin"; readonly network: string }
  /** Its checks follow, each once, as they end. */
  | {
      readonly type: "engine";
      readonly engine: string;
      readonly version: string | null;
      readonly checks: readonly string[];
    }
  | ({ readonly type: "check" } & Check)
  /** Nothing can be checked at all. The code is that of a fault. */
  | {
      readonly type: "fatal";
      readonly code: "engine_cannot" | "storage_failed" | "storage_full";
      readonly message: string;
    };
