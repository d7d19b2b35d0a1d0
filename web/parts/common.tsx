/** Small parts of every screen: states, times, buttons, messages, dialogs. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { styleOfState } from "../../src/lib/palette.ts";
import { useLink } from "../api.ts";
import type { Refusal } from "../api.ts";
import { age, safeLine } from "../format.ts";
import { Icon, type IconName } from "./icons.tsx";

/** A state in its colour. A live state pulses, unless the connection is lost. */
export function State({ state, isLive = false }: { readonly state: string; readonly isLive?: boolean }) {
  const { state: link } = useLink();
  const style = styleOfState(state) ?? "dim";
  const isStale = isLive && link !== "live";
  return (
    <span class={`state is-${style}${isLive ? " is-live" : ""}${isStale ? " is-stale" : ""}`}>
      <span class="dot" aria-hidden="true" />
      {safeLine(state, 24)}
      {isStale ? "?" : ""}
    </span>
  );
}

/** Redraws now and then, so that ages stay true. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export function Age({ at, now }: { readonly at: string; readonly now: number }) {
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {age(at, now)}
    </time>
  );
}

interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly icon?: IconName;
  readonly onClick?: () => void;
  readonly kind?: "primary" | "plain" | "danger";
  readonly disabled?: boolean | undefined;
  readonly title?: string | undefined;
  readonly type?: "button" | "submit";
  readonly pressed?: boolean;
}

export function Button({
  children,
  icon,
  onClick,
  kind = "plain",
  disabled,
  title,
  type = "button",
  pressed,
}: ButtonProps) {
  return (
    <button
      type={type}
      class={`button is-${kind}`}
      onClick={onClick}
      disabled={disabled}
      title={title}
      aria-pressed={pressed}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      {children}
    </button>
  );
}

export function CopyButton({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1_500);
    });
  };
  return (
    <button type="button" class="copy" onClick={copy} title={label} aria-label={isDone ? "Copied" : label}>
      <Icon name={isDone ? "check" : "copy"} />
    </button>
  );
}

/** A refusal of the server: its message says what to type next. */
export function Failure({ error, onRetry }: { readonly error: Refusal; readonly onRetry?: () => void }) {
  return (
    <div class="note is-bad" role="alert">
      <Icon name="warn" />
      <p>{safeLine(error.message)}</p>
      {onRetry === undefined ? null : <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

export function Note({
  level,
  children,
}: {
  readonly level: "bad" | "warn" | "note" | "good";
  readonly children: ComponentChildren;
}) {
  return (
    <div class={`note is-${level}`}>
      <Icon name={level === "good" ? "check" : "warn"} />
      <div>{children}</div>
    </div>
  );
}

export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Grey bars where rows will be: nothing moves when they come. */
export function Skeleton({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly className?: string;
}

export function Dialog({ title, onClose, children, className = "" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (dialog !== null && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dialog ${className}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      <div class="dialog-inner">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="copy" onClick={onClose} aria-label="Close">
            <Icon name="cross" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A command that a person can type instead. */
export function Command({ children }: { readonly children: string }) {
  return <code class="command">{children}</code>;
}

/** Runs one action of a person at a time, and keeps its refusal. */
export function useAction(): {
  readonly busy: boolean;
  readonly error: Refusal | undefined;
  readonly run: (action: () => Promise<void>) => void;
  readonly clear: () => void;
} {
  const [state, setState] = useState<{ busy: boolean; error?: Refusal }>({ busy: false });
  const run = (action: () => Promise<void>) => {
    if (state.busy) return;
    setState({ busy: true });
    action().then(
      () => setState({ busy: false }),
      (error: Refusal) => setState({ busy: false, error }),
    );
  };
  return { busy: state.busy, error: state.error, run, clear: () => setState({ busy: false }) };
}
