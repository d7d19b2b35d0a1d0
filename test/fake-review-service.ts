/** A review service that plays a script, for the UI's tests and its bench: no GitHub, no Codex, no files. */
import type { QuestionAnswer } from "../src/core/events.ts";
import type {
  ReviewComment,
  ReviewService,
  InterruptedSession,
  LoadedComments,
  ReviewTurn,
  TurnOrder,
  TurnResult,
  TurnUpdate,
} from "../src/reviews/reviews.ts";

export interface Script {
  readonly comments: readonly ReviewComment[];
  readonly title?: string;
  readonly head?: LoadedComments["head"];
  readonly warnings?: readonly string[];
  readonly interrupted?: InterruptedSession;
  /** What a turn does. A question waits for its answer, `hang` for an interrupt. */
  readonly turn?: readonly (TurnUpdate | { readonly type: "hang" })[];
  /** Why a session cannot be continued. */
  readonly refused?: string;
  readonly code?: readonly string[];
  readonly loadFails?: string;
}

export function fakeReviewService(
  script: Script,
  journal: (entry: Record<string, unknown>) => void = () => {},
): ReviewService {
  let offered = script.interrupted ?? null;
  return {
    pullRequest: { host: "github.com", owner: "acme", repository: "shop", number: 42 },
    load: async (fresh) => {
      journal({ call: "load", fresh });
      if (script.loadFails !== undefined) throw new Error(script.loadFails);
      return {
        comments: script.comments,
        title: script.title ?? "Prices in whole cents",
        head: script.head ?? { pullRequest: null, folder: null },
        warnings: script.warnings ?? [],
      };
    },
    trusts: (comment) => ["OWNER", "MEMBER", "COLLABORATOR"].includes(comment.association ?? ""),
    findInterrupted: async () => offered,
    decline: async (session) => {
      offered = null;
      journal({ call: "decline", threadId: session.threadId });
    },
    begin: (order, update) => {
      const resume = order.resume?.threadId ?? null;
      journal({ call: "begin", comments: order.comments.map((comment) => comment.id), resume });
      offered = null;
      return play(script, order, update, journal);
    },
    codeAround: async () => script.code ?? null,
  };
}

function play(
  script: Script,
  order: TurnOrder,
  update: (update: TurnUpdate) => void,
  journal: (entry: Record<string, unknown>) => void,
): ReviewTurn {
  const answers = new Map<string, (decision: QuestionAnswer) => void>();
  let stop: (status: "interrupted" | "cancelled") => void = () => {};
  const stopped = new Promise<"interrupted" | "cancelled">((resolve) => void (stop = resolve));
  const end = (status: TurnResult["status"], reason: string): TurnResult => {
    journal({ call: "ended", status });
    return { status, reason, handle: "1a2b3c4d", exitCode: status === "completed" ? 0 : 75, refused: null };
  };
  const perform = async (): Promise<TurnResult> => {
    await Promise.resolve();
    if (order.resume !== null && script.refused !== undefined) {
      return { ...end("failed", script.refused), refused: script.refused };
    }
    update({ type: "begun", handle: "1a2b3c4d", resumed: order.resume !== null });
    for (const step of script.turn ?? []) {
      if (step.type === "hang") return end(await stopped, "asked to stop");
      update(step);
      if (step.type !== "question") continue;
      const answered = new Promise<QuestionAnswer>((resolve) => answers.set(step.question.id, resolve));
      const decision = await Promise.race([answered, stopped.then(() => null)]);
      update({ type: "settled", id: step.question.id, decision });
      if (decision === null) return end(await stopped, "asked to stop");
      if (decision === "cancel") return end("interrupted", "the turn was cancelled");
    }
    return end("completed", "done");
  };
  return {
    done: perform(),
    answer: (id, decision) => {
      journal({ call: "answer", id, decision });
      answers.get(id)?.(decision);
    },
    interrupt: () => {
      journal({ call: "interrupt" });
      stop("interrupted");
    },
    discard: () => {
      journal({ call: "discard" });
      stop("cancelled");
    },
  };
}

export function sampleComment(id: number, fields: Partial<ReviewComment> = {}): ReviewComment {
  return {
    id: String(id),
    author: "alice",
    association: "MEMBER",
    filePath: "src/cart.ts",
    line: 10 + id,
    originalLine: 10 + id,
    body: `Comment ${id}: prices are floats here.`,
    diffHunk: "@@ -8,4 +8,5 @@ function total() {\n const sum = 0;\n-let price = 1.5;\n+let price = 150;",
    commit: "0123456789abcdef0123456789abcdef01234567",
    inReplyTo: null,
    createdAt: "2026-05-01T09:00:00Z",
    resolved: false,
    ...fields,
  };
}
