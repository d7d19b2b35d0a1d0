/** The conversation of a run as people read it, and the box that continues it. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { act, get, listen, type Refusal, useLink } from "../api.ts";
import {
  count,
  duration,
  isInteractive,
  isLive,
  moment,
  plural,
  safe,
  safeLine,
  tokenWords,
} from "../format.ts";
import {
  append,
  type Block,
  type Conversation,
  EMPTY,
  type ToolCall,
  withAttempts,
} from "../model/conversation.ts";
import { Button, Empty, Failure, Note, Skeleton, State, useAction } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import { Measured } from "../parts/list.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { memo } from "../memo.ts";
import type { ConversationEvent, Run } from "../types.ts";

const PAGE = 5_000;

interface Page {
  readonly events: readonly ConversationEvent[];
  readonly next: string | number | null;
  readonly done?: boolean;
  /** The events begin at the beginning: earlier ones do not count any more. */
  readonly reset?: boolean;
}

/** Reads everything there is, then follows from that cursor. A lost connection continues at the cursor. */
function useConversation(handle: string) {
  const [state, setState] = useState<{ talk: Conversation; isLoaded: boolean; error?: Refusal }>({
    talk: EMPTY,
    isLoaded: false,
  });
  const cursor = useRef<string | number | null>(null);
  const { time } = useLink();
  useEffect(() => {
    cursor.current = null;
    setState({ talk: EMPTY, isLoaded: false });
  }, [handle]);
  useEffect(() => {
    let isWanted = true;
    let end = (): void => undefined;
    const read = async () => {
      for (;;) {
        const from = cursor.current === null ? "" : `&from=${encodeURIComponent(String(cursor.current))}`;
        const page = await get<Page>(`/runs/${handle}/conversation?limit=${PAGE}${from}`);
        if (!isWanted) return;
        cursor.current = page.next ?? cursor.current;
        const isLoaded = page.done !== false || page.events.length === 0;
        setState(({ talk }) => ({ talk: append(talk, page.events), isLoaded }));
        if (isLoaded) break;
      }
      end = listen(
        `conversation/${handle}`,
        (message) => {
          const { events = [], next, reset } = message as unknown as Partial<Page>;
          cursor.current = next ?? cursor.current;
          setState((old) => ({ ...old, talk: append(reset === true ? EMPTY : old.talk, events) }));
        },
        () => cursor.current,
      );
    };
    read().catch((error: Refusal) => isWanted && setState((old) => ({ ...old, isLoaded: true, error })));
    return () => {
      isWanted = false;
      end();
    };
    // The subscription itself goes on after a reconnection: only a first read that failed is repeated.
  }, [handle, state.error === undefined ? 0 : time]);
  return state;
}

export function ConversationView({ run }: { readonly run: Run }) {
  const { talk, isLoaded, error } = useConversation(run.handle);
  const blocks = useMemo(() => withAttempts(talk.blocks, run.history), [talk.blocks, run.history]);
  const guess = useCallback((at: number) => guessHeight(blocks[at]), [blocks]);
  if (error !== undefined && blocks.length === 0) return <Failure error={error} />;
  if (!isLoaded && talk.blocks.length === 0) return <Skeleton rows={10} />;
  if (blocks.every(({ kind }) => kind === "attempt"))
    return (
      <Empty title="Nothing was said yet">
        {isInteractive(run) ? <p>The agent's own UI is recorded: see Terminal and Replay.</p> : null}
      </Empty>
    );
  return (
    <Measured
      label="Conversation"
      content={run.handle}
      count={blocks.length}
      guess={guess}
      row={(at) => {
        const block = blocks[at];
        return block === undefined ? null : (
          <BlockView block={block} handle={run.handle} engine={run.agentName} />
        );
      }}
    />
  );
}

function guessHeight(block: Block | undefined): number {
  if (block === undefined) return 40;
  if (block.kind === "text" || block.kind === "user") return 56 + Math.ceil(block.text.length / 90) * 21;
  return block.kind === "attempt" ? 48 : 40;
}

interface BlockProps {
  readonly block: Block;
  readonly handle: string;
  readonly engine: string;
}

const BlockView = memo(({ block, handle, engine }: BlockProps) => {
  switch (block.kind) {
    case "attempt":
      return (
        <div class={block.n === 1 ? "block is-attempt is-first" : "block is-attempt"}>
          <a href={`/runs/${handle}/attempts`}>
            Attempt {block.n} · {safeLine(block.why, 20)}
          </a>
          {block.startedAt === null ? null : <span class="dim">{moment(block.startedAt, Date.now())}</span>}
          {block.outcome === null ? null : <State state={block.outcome.result} />}
          {block.outcome === null || block.outcome.result === "completed" ? null : (
            <span class="dim">{safeLine(block.outcome.reason, 160)}</span>
          )}
        </div>
      );
    case "user":
      return (
        <article class="block is-user" aria-label="Message to the agent">
          <p class="who">You</p>
          <pre class="plain">{safe(block.text)}</pre>
        </article>
      );
    case "text":
      return (
        <article class="block is-text" aria-label="Message of the agent">
          <p class="who is-engine">
            {safeLine(engine, 16)}
            {block.t === null ? null : <span class="dim at"> +{duration(block.t)}</span>}
          </p>
          <Markdown text={block.text} />
        </article>
      );
    case "tools":
      return <Tools calls={block.calls} />;
    case "trouble":
      return (
        <div class="block">
          <Note level={block.level}>
            {block.trouble === undefined ? null : (
              <strong>{safeLine(block.trouble.kind.replaceAll("_", " "), 40)}: </strong>
            )}
            {safeLine(block.text, 2_000)}
            {typeof block.trouble?.resetsAt === "string"
              ? ` Resets ${moment(block.trouble.resetsAt, Date.now())}.`
              : ""}
          </Note>
        </div>
      );
    case "ended":
      return (
        <p class="block is-ended dim">
          turn {safeLine(block.result, 20)}
          {tokenWords(block.tokens) === "" ? "" : ` · ${tokenWords(block.tokens)} tokens`}
        </p>
      );
  }
});

/** Few calls stand alone; many are one line until opened. Failures are always seen. */
function Tools({ calls }: { readonly calls: readonly ToolCall[] }) {
  if (calls.length <= 3)
    return (
      <div class="block is-tools">
        {calls.map((call, at) => (
          <Tool key={at} call={call} />
        ))}
      </div>
    );
  const names = new Map<string, number>();
  for (const { name } of calls) names.set(name, (names.get(name) ?? 0) + 1);
  const words = [...names].map(([name, n]) => (n === 1 ? name : `${name} ×${n}`)).join(", ");
  const failed = calls.filter(({ state }) => state === "failed").length;
  return (
    <div class="block is-tools">
      <details class="tool-group">
        <summary>
          <Icon name="tool" />
          <strong>{plural(calls.length, "tool call")}</strong>
          <span class="tool-detail">{safeLine(words, 160)}</span>
          {failed === 0 ? null : <span class="is-bad">{failed} failed</span>}
        </summary>
        {calls.map((call, at) => (
          <Tool key={at} call={call} />
        ))}
      </details>
    </div>
  );
}

const MARKS = { running: "clock", ok: "check", failed: "cross" } as const;

function Tool({ call }: { readonly call: ToolCall }) {
  return (
    <details class={`tool is-${call.state}`}>
      <summary>
        <Icon name={MARKS[call.state]} />
        <span class="tool-name">{safeLine(call.name, 40)}</span>
        <span class="tool-detail mono">{safeLine(call.detail, 300)}</span>
        <span class="hidden">{call.state}</span>
      </summary>
      <pre class="plain" tabIndex={0}>
        {call.detail === "" ? "" : `${safe(call.detail)}\n`}
        {call.output === undefined ? "" : `\n${safe(call.output)}`}
        {call.cut === undefined ? "" : `\n(${count(call.cut)} characters are not in the recording)`}
      </pre>
    </details>
  );
}

/** Resumes the run; types into a live UI; a busy headless agent must end first. */
export function Composer({ run, mayWrite }: { readonly run: Run; readonly mayWrite: boolean }) {
  const [text, setText] = useState(() => sessionStorage.getItem(`draft-${run.handle}`) ?? "");
  const [sent, setSent] = useState<{ sent: string; why?: string }>();
  const action = useAction();
  useEffect(() => sessionStorage.setItem(`draft-${run.handle}`, text), [text, run.handle]);
  const isUi = isLive(run) && isInteractive(run);
  const why = refusalOf(run, mayWrite, isUi);
  const submit = () => {
    if (why !== null || text.trim() === "") return;
    setSent(undefined);
    action.run(async () => {
      if (isUi) {
        const reply = await act<{ sent: string; why?: string }>(`/runs/${run.handle}/message`, {
          message: text,
        });
        setSent(reply);
        if (reply.sent === "refused") return;
      } else await act(`/runs/${run.handle}/resume`, { message: text, attempt: run.attempts });
      setText("");
    });
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {action.error === undefined ? null : <Failure error={action.error} />}
      {sent === undefined || sent.sent === "ok" ? null : (
        <Note level="warn">
          {sent.sent === "refused" ? "Not sent" : "Sent, but the UI did not confirm it"}
          {sent.why === undefined ? "." : `: ${safeLine(sent.why, 200)}`}
        </Note>
      )}
      <div class="composer-box">
        <label class="grow">
          <span class="hidden">Message to the agent</span>
          <textarea
            id="message"
            rows={2}
            placeholder={why ?? (isUi ? "Type into the agent's UI" : "Continue this conversation")}
            disabled={why !== null}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              // Keyboards of phones have no other key for a new line.
              const isTouch = matchMedia("(pointer: coarse)").matches;
              if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouch) return;
              event.preventDefault();
              submit();
            }}
          />
        </label>
        <Button kind="primary" type="submit" disabled={why !== null || action.busy || text.trim() === ""}>
          {action.busy ? "Sending…" : isUi ? "Send" : "Resume"}
        </Button>
      </div>
    </form>
  );
}

function refusalOf(run: Run, mayWrite: boolean, isUi: boolean): string | null {
  if (!mayWrite) return "This link may only read.";
  if (isUi) return null;
  if (isLive(run)) return "The agent is working. Stop it, or wait for the end of its turn.";
  if (!run.resumable) return `This run cannot be resumed${run.why ? `: ${safeLine(run.why, 120)}` : "."}`;
  return null;
}
