/** The address bar as state: parses paths, follows links of the page, tells the page when the address changes. */
import { useEffect, useState } from "preact/hooks";

export interface Place {
  /** Name of the screen. Unknown paths are `missing`. */
  readonly screen: string;
  readonly handle?: string;
  /** The part of a run, `conversation` by default. */
  readonly tab?: string;
  readonly attempt?: number;
  readonly query: URLSearchParams;
}

const SCREENS = ["runs", "search", "agents", "batches", "reviews", "usage", "doctor"];
const RUN = /^\/runs\/([0-9a-f]{4,8})(?:\/(attempts|terminal|changes|replay)(?:\/(\d{1,6}))?)?$/;

export function placeOf(path: string, search = ""): Place {
  const query = new URLSearchParams(search);
  if (path === "/" || path === "/inbox") return { screen: "inbox", query };
  const name = path.slice(1);
  if (SCREENS.includes(name)) return { screen: name, query };
  const run = RUN.exec(path);
  if (run === null) return { screen: "missing", query };
  const [, handle = "", tab = "conversation", n] = run;
  return { screen: "run", handle, tab, ...(n === undefined ? {} : { attempt: Number(n) }), query };
}

const listeners = new Set<() => void>();

export function go(path: string, options: { readonly replace?: boolean } = {}): void {
  if (options.replace === true) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  for (const listener of listeners) listener();
}

export function usePlace(): Place {
  const [address, setAddress] = useState(location.pathname + location.search);
  useEffect(() => {
    const read = () => setAddress(location.pathname + location.search);
    listeners.add(read);
    addEventListener("popstate", read);
    return () => {
      listeners.delete(read);
      removeEventListener("popstate", read);
    };
  }, []);
  const [path = "/", search = ""] = address.split("?", 2);
  return placeOf(path, search);
}

/** A link to a part of the screen moves the focus there. */
function focusOn(id: string): void {
  const element = document.getElementById(id);
  if (element === null) return;
  element.tabIndex = -1;
  element.focus();
}

/** Links of the page itself change the address without a load. */
export function followLinks(): void {
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    if (link.hash !== "" && link.pathname === location.pathname) return focusOn(link.hash.slice(1));
    go(link.pathname + link.search);
    scrollTo(0, 0);
  });
}
