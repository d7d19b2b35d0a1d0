/** A notification of the browser when something begins to wait for a person who does not look at the page. */
import { useEffect, useRef, useState } from "preact/hooks";
import { plural } from "./format.ts";
import { go } from "./router.ts";

const isThere = "Notification" in globalThis && globalThis.isSecureContext;

export function useNotifications(waiting: number): void {
  const last = useRef(waiting);
  useEffect(() => {
    const isMore = waiting > last.current;
    last.current = waiting;
    if (!isMore || !isThere || !document.hidden || Notification.permission !== "granted") return;
    try {
      const shown = new Notification("Reprise", {
        body: `${plural(waiting, "thing")} for you`,
        tag: "inbox",
      });
      shown.addEventListener("click", () => {
        focus();
        go("/");
        shown.close();
      });
    } catch {
      // Phones allow notifications of service workers only; the title of the page has the number all the same.
    }
  }, [waiting]);
}

/** Null: the browser cannot, or the person has decided already. */
export function useNotifyRequest(): (() => void) | null {
  const [isOpen, setOpen] = useState(isThere && Notification.permission === "default");
  if (!isOpen) return null;
  return () => void Notification.requestPermission().then((answer) => setOpen(answer === "default"));
}
