/** One run: its head, its parts, and what a person can do with it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { act, listen, useGet } from "../api.ts";
import { folder, isInteractive, isLive, plural, safeLine, stateOf, titleOf } from "../format.ts";
import {
  Age,
  Button,
  CopyButton,
  Dialog,
  Failure,
  Note,
  Skeleton,
  State,
  useAction,
  useNow,
} from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import { Later } from "../parts/later.tsx";
import { go, type Place } from "../router.ts";
import type { Run as RunData } from "../types.ts";
import { Attempts } from "./attempts.tsx";
import { Changes } from "./changes.tsx";
import { Composer, ConversationView } from "./conversation.tsx";

/** The terminal is large and comes with its first use. */
const loadLive = async () => (await import("./terminal.tsx")).LiveTerminal;
const loadReplay = async () => (await import("./replay.tsx")).Replay;

const SETTLE_MS = 800;

/** The record as fetched, replaced by every live change. */
function useRun(handle: string) {
  const fetched = useGet<RunData>(`/runs/${handle}`);
  const [told, setTold] = useState<RunData>();
  useEffect(() => setTold(undefined), [fetched.data]);
  const { reload } = fetched;
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = listen(`run/${handle}`, (message) => {
      const run = message["run"] as RunData | undefined;
      if (run === undefined) return;
      setTold(run);
      // Receipt and copy of the session are written after the record that tells of the end.
      clearTimeout(timer);
      timer = setTimeout(() => latest.current(), SETTLE_MS);
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [handle]);
  return { run: told ?? fetched.data, error: fetched.error, reload };
}

export function RunScreen({ place, mayWrite }: { readonly place: Place; readonly mayWrite: boolean }) {
  const { handle = "", tab = "conversation", attempt } = place;
  const { run, error, reload } = useRun(handle);
  useEffect(() => {
    if (run !== undefined) document.title = `${titleOf(run)} · Reprise`;
  }, [run]);
  if (run === undefined)
    return (
      <main class="screen" id="main">
        <h1 class="hidden">Run {handle}</h1>
        {error === undefined ? <Skeleton rows={10} /> : <Failure error={error} onRetry={reload} />}
      </main>
    );
  return (
    <main class={`screen is-run is-${tab}`} id="main">
      <Head run={run} mayWrite={mayWrite} />
      <Tabs run={run} tab={tab} />
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      <div class="run-body">
        {tab === "conversation" ? (
          <>
            <div class="talk">
              <ConversationView run={run} />
              <Composer run={run} mayWrite={mayWrite} />
            </div>
            <aside class="rail" aria-label="Attempts">
              <Attempts run={run} />
            </aside>
          </>
        ) : null}
        {tab === "attempts" ? <Attempts run={run} /> : null}
        {tab === "changes" ? <Changes handle={run.handle} /> : null}
        {tab === "terminal" ? <Later load={loadLive} props={{ run, mayWrite }} /> : null}
        {tab === "replay" ? <Later load={loadReplay} props={{ run, n: attempt ?? run.attempts }} /> : null}
      </div>
    </main>
  );
}

function Head({ run, mayWrite }: { readonly run: RunData; readonly mayWrite: boolean }) {
  const now = useNow();
  const [open, setOpen] = useState<"rename" | "fork" | "stop">();
  return (
    <header class="run-head">
      <a class="back" href="/runs" aria-label="All runs">
        <Icon name="back" />
      </a>
      <div class="run-title">
        <h1>{titleOf(run)}</h1>
        <p class="facts">
          <State state={stateOf(run)} isLive={isLive(run)} />
          <span class="is-engine">{safeLine(run.agentName, 16)}</span>
          <span class="mono">
            {run.handle}{" "}
            <CopyButton text={`reprise resume ${run.handle} `} label="Copy the command that resumes" />
          </span>
          <span title={safeLine(run.cwd)}>{folder(run.cwd)}</span>
          <span>{plural(run.attempts, "attempt")}</span>
          <span>
            used <Age at={run.updatedAt} now={now} />
          </span>
          {run.parent === null || run.parent === undefined ? null : (
            <span>
              fork of <a href={`/runs/${run.parent.handle}`}>{run.parent.handle}</a>
            </span>
          )}
        </p>
      </div>
      {mayWrite ? (
        <div class="actions">
          {isLive(run) ? (
            <Button icon="stop" kind="danger" onClick={() => setOpen("stop")}>
              Stop
            </Button>
          ) : null}
          <Button icon="fork" onClick={() => setOpen("fork")} title="Copy the conversation into a new run">
            Fork
          </Button>
          <Button onClick={() => setOpen("rename")}>Rename</Button>
        </div>
      ) : null}
      {(run.warnings ?? []).map((warning) => (
        <Note key={warning} level="warn">
          {safeLine(warning)}
        </Note>
      ))}
      {open === undefined ? null : <ActionDialog run={run} what={open} onClose={() => setOpen(undefined)} />}
    </header>
  );
}

const ACTIONS = {
  rename: { title: "Rename the run", label: "Name", button: "Rename", kind: "primary" },
  fork: {
    title: "Fork the conversation",
    label: "First message of the fork",
    button: "Fork",
    kind: "primary",
  },
  stop: { title: "Stop the agent", label: null, button: "Stop", kind: "danger" },
} as const;

interface ActionDialogProps {
  readonly run: RunData;
  readonly what: keyof typeof ACTIONS;
  readonly onClose: () => void;
}

function ActionDialog({ run, what, onClose }: ActionDialogProps) {
  const { title, label, button, kind } = ACTIONS[what];
  const [text, setText] = useState(what === "rename" ? (run.name ?? "") : "");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      if (what === "rename") await act(`/runs/${run.handle}/rename`, { name: text.trim() });
      if (what === "stop") await act(`/runs/${run.handle}/stop`, {});
      if (what === "fork") {
        const fork = await act<{ handle: string }>(`/runs/${run.handle}/fork`, { message: text });
        go(`/runs/${fork.handle}`);
      }
      onClose();
    });
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        {what === "stop" ? (
          <p>Reprise ends the agent and keeps the conversation. You can resume it later.</p>
        ) : null}
        {label === null ? null : (
          <label class="field-block">
            <span>{label}</span>
            {what === "fork" ? (
              <textarea
                rows={3}
                required
                autoFocus
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            ) : (
              <input
                required
                autoFocus
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            )}
          </label>
        )}
        {action.error === undefined ? null : <Failure error={action.error} />}
        <footer class="form-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind={kind} type="submit" disabled={action.busy}>
            {action.busy ? "Working…" : button}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Tabs({ run, tab }: { readonly run: RunData; readonly tab: string }) {
  const base = `/runs/${run.handle}`;
  const hasTerminal = isInteractive(run) || run.launch?.mode === "pty";
  const tabs = [
    ["conversation", "Conversation", base],
    ["attempts", "Attempts", `${base}/attempts`],
    ...(hasTerminal && isLive(run) ? [["terminal", "Terminal", `${base}/terminal`]] : []),
    ["replay", "Replay", `${base}/replay/${Math.max(1, run.attempts)}`],
    ["changes", "Changes", `${base}/changes`],
  ] as const;
  return (
    <nav class="tabs" aria-label="Parts of the run">
      {tabs.map(([id, label, href]) => (
        <a key={id} class={`tab is-${id}`} href={href} aria-current={tab === id ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}
