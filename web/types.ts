/** What the page reads of the API's replies. Everything else in them is left alone. Texts are untrusted. */

export interface Tokens {
  readonly input?: number | null;
  readonly output?: number | null;
  readonly cached?: number | null;
  readonly reasoning?: number | null;
  readonly costUsd?: number | null;
  readonly model?: string | null;
}

export interface Trouble {
  readonly kind: string;
  readonly message: string;
  readonly resetsAt?: string | null;
}

export interface Outcome {
  readonly result: string;
  readonly reason: string;
  readonly trouble?: Trouble | null;
}

/** `state` and `what` are known of a live UI only. */
export interface LiveState {
  readonly pid?: number;
  readonly state?: string;
  readonly what?: string;
}

/** One row of the list. Lists tell less than the record of one run. */
export interface RunRow {
  readonly handle: string;
  readonly runId: string;
  readonly agentName: string;
  readonly status: string;
  readonly attempts: number;
  readonly title?: string | null;
  readonly name?: string | null;
  readonly tags?: readonly string[];
  readonly subject?: string | null;
  readonly cwd: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly session?: {
    readonly value: string;
    readonly source: string;
    readonly verifiedAt?: string | null;
  } | null;
  readonly launch?: {
    readonly message?: string | null;
    readonly interactive?: boolean;
    readonly isolate?: string | null;
    readonly mode?: string;
  };
  /** The last attempt is a UI in a terminal. */
  readonly interactive?: boolean;
  /** Of all attempts together; a number is input and output. */
  readonly tokens?: Tokens | number | null;
  readonly live?: LiveState | boolean | null;
  readonly what?: string;
  readonly limit?: { readonly kind?: string; readonly resetsAt?: string | null } | null;
  readonly parent?: { readonly handle: string } | null;
}

/** Proof of a resume: what Reprise asked for, and what the engine reported. */
export interface Receipt {
  readonly asked: string;
  readonly reported: string | null;
  readonly verified: string;
  readonly cwd: string;
  readonly engineVersion?: string | null;
  readonly restoredFromEscrow: boolean;
  readonly lacks?: readonly string[];
  readonly options: {
    readonly kept: readonly string[];
    readonly dropped: readonly string[];
    readonly rewritten: readonly string[];
  };
  readonly at: string;
}

export interface Attempt {
  readonly n: number;
  readonly kind: string;
  readonly state: string;
  readonly mode?: string;
  readonly interactive?: boolean;
  readonly message?: string | null;
  readonly asked?: string | null;
  readonly engineVersion?: string | null;
  readonly startedAt: string;
  readonly endedAt?: string | null;
  readonly exit?: { readonly code: number | null; readonly signal: string | null } | null;
  readonly outcome?: Outcome | null;
  readonly tokens?: Tokens | null;
  readonly diagnostics?: readonly string[];
  /** The size of its terminal at the start. */
  readonly terminal?: { readonly cols: number; readonly rows: number } | null;
  readonly receipt: Receipt | null;
}

/** `why`: the reason that the run cannot be resumed. */
export interface Run extends RunRow {
  readonly history: readonly Attempt[];
  readonly resumable: boolean;
  readonly why?: string | null;
  readonly next?: string | null;
  readonly escrowState?: string | null;
  readonly escrow?: { readonly takenAt: string } | null;
  readonly warnings?: readonly string[];
  readonly scheduled?: { readonly at?: string; readonly dueAt?: string } | null;
}

/** A line of the conversation. `n` is the attempt, `t` milliseconds since its start. */
export interface ConversationEvent {
  readonly n?: number;
  readonly attempt?: number;
  readonly t?: number;
  readonly type: string;
  readonly [name: string]: unknown;
}

export interface DecisionOption {
  readonly n: number;
  readonly label: string;
  readonly does: string;
}

export interface Decision {
  readonly id: string;
  readonly agentId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly trigger: string;
  readonly what: string;
  readonly trouble: Trouble | null;
  readonly tried?: string;
  readonly lastWords: string;
  readonly options: readonly DecisionOption[];
  readonly state: string;
  readonly createdAt: string;
}

/** The run that hit it, or that run's row with `limit`. */
export interface Limit extends Partial<Pick<RunRow, "agentName" | "limit">> {
  readonly handle: string;
  readonly engine?: string;
  readonly kind?: string;
  readonly resetsAt?: string | null;
}

export interface Inbox {
  readonly decisions: readonly Decision[];
  readonly ended: readonly (RunRow & { readonly endedAt?: string; readonly outcome?: Outcome | null })[];
  readonly limits: readonly Limit[];
  readonly waiting: readonly RunRow[];
}

export interface Session {
  readonly rights: string;
  readonly version: string;
  readonly state?: string;
  /** Folders in which runs were started, last used first. */
  readonly folders?: readonly string[];
  readonly cwds?: readonly string[];
}
