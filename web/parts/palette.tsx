/** Ctrl-K goes anywhere, `?` lists the keys. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../api.ts";
import { safeLine, titleOf } from "../format.ts";
import { go } from "../router.ts";
import type { RunRow } from "../types.ts";
import { Dialog } from "./common.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { isTyping } from "./list.tsx";

interface Entry {
  readonly path: string;
  readonly label: string;
  readonly detail: string;
  readonly icon: IconName;
}

const PLACES: readonly Entry[] = [
  { path: "/", label: "Inbox", detail: "g i", icon: "inbox" },
  { path: "/runs", label: "Runs", detail: "g r", icon: "runs" },
  { path: "/agents", label: "Agents and pipelines", detail: "g a", icon: "agents" },
  { path: "/usage", label: "Usage", detail: "g u", icon: "usage" },
  { path: "/batches", label: "Batches", detail: "g b", icon: "batches" },
  { path: "/reviews", label: "Reviews", detail: "g v", icon: "reviews" },
  { path: "/search", label: "Search conversations", detail: "g s", icon: "search" },
  { path: "/doctor", label: "Doctor", detail: "g d", icon: "doctor" },
  { path: "/runs?new=1", label: "New run", detail: "n", icon: "plus" },
];

export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const [runs, setRuns] = useState<readonly RunRow[]>([]);
  const [cursor, setCursor] = useState(0);
  const id = useId();
  const latest = useRef(0);
  useEffect(() => {
    const mine = ++latest.current;
    const timer = setTimeout(() => {
      get<{ runs: readonly RunRow[] }>(`/runs?limit=8&grep=${encodeURIComponent(text.trim())}`).then(
        (page) => mine === latest.current && setRuns(page.runs),
        () => undefined,
      );
    }, 120);
    return () => clearTimeout(timer);
  }, [text]);
  const words = text.trim().toLowerCase();
  const entries: readonly Entry[] = [
    ...PLACES.filter(({ label }) => label.toLowerCase().includes(words)),
    ...runs.map((run): Entry => ({
      path: `/runs/${run.handle}`,
      label: titleOf(run),
      detail: `${run.handle} · ${safeLine(run.status, 16)}`,
      icon: "open",
    })),
    ...(words === ""
      ? []
      : [
          {
            path: `/search?q=${encodeURIComponent(text.trim())}`,
            label: `Search all conversations for “${safeLine(text, 60)}”`,
            detail: "",
            icon: "search",
          } as const,
        ]),
  ];
  const at = Math.min(cursor, entries.length - 1);
  const open = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    go(entry.path);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setCursor(Math.min(entries.length - 1, at + 1));
    else if (event.key === "ArrowUp") setCursor(Math.max(0, at - 1));
    else if (event.key === "Enter") open(entries[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" onClose={onClose} className="palette">
      <input
        class="palette-input"
        role="combobox"
        aria-label="Screen, run or words"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={entries.length === 0 ? undefined : `${id}-${at}`}
        autoFocus
        placeholder="Screen, run or words"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setCursor(0);
        }}
        onKeyDown={press}
      />
      <ul class="palette-list" role="listbox" id={id} aria-label="Places">
        {entries.map((entry, index) => (
          <li
            key={entry.path}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => open(entry)}
            onMouseMove={() => setCursor(index)}
          >
            <Icon name={entry.icon} />
            <span class="grow cut">{entry.label}</span>
            <span class="dim">{entry.detail}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["Ctrl K", "go to a screen, a run, or search"],
  ["?", "this list"],
  ["/", "filter the list"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  ["n", "new run"],
  ["m", "write a message in a run"],
  ["g i", "inbox"],
  ["g r", "runs"],
  ["g a", "agents; u usage, b batches, v reviews, s search, d doctor"],
  ["1 … 5", "parts of a run"],
  ["Ctrl ]", "give up control of a terminal"],
  ["Esc", "close a dialog, leave a field"],
];

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

const AFTER_G: Readonly<Record<string, string>> = {
  i: "/",
  r: "/runs",
  a: "/agents",
  u: "/usage",
  b: "/batches",
  v: "/reviews",
  s: "/search",
  d: "/doctor",
};

/** Keys of the whole page. None works while a person types. */
export function useShortcuts(open: (dialog: "palette" | "help") => void, isOpen: boolean): void {
  const wasG = useRef(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("palette");
        return;
      }
      const field =
        event.target instanceof HTMLElement ? event.target.closest<HTMLElement>("input, textarea") : null;
      if (event.key === "Escape" && !isOpen && field?.closest(".xterm") === null) field.blur();
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isOpen) return;
      if (plainKey(event.key, wasG.current, open)) event.preventDefault();
      wasG.current = event.key === "g";
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [open, isOpen]);
}

function plainKey(key: string, afterG: boolean, open: (dialog: "palette" | "help") => void): boolean {
  const place = afterG ? AFTER_G[key] : undefined;
  if (place !== undefined) go(place);
  else if (key === "?") open("help");
  else if (key === "n") go("/runs?new=1");
  else if (key === "/") return focus("#filter");
  else if (key === "m") return focus("#message");
  else if (/^[1-5]$/.test(key)) {
    const tab = document.querySelectorAll<HTMLAnchorElement>(".tab")[Number(key) - 1];
    tab?.click();
    return tab !== undefined;
  } else return false;
  return true;
}

function focus(selector: string): boolean {
  const element = document.querySelector<HTMLElement>(selector);
  element?.focus();
  return element !== null;
}
