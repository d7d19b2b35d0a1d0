/** Two lists that draw only visible rows: rows of one height with a cursor, and measured rows. */
import type { ComponentChildren, RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { evenWindow, Heights } from "../model/virtual.ts";

interface View {
  readonly top: number;
  readonly height: number;
}

/** The visible part of a scrolling element, redrawn with each scroll. `note` hears of it before the redraw. */
function useView(box: RefObject<HTMLElement>, note?: (element: HTMLElement) => void): View {
  const [view, setView] = useState<View>({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const read = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const scrolled = () => {
      note?.(element);
      read();
    };
    read();
    element.addEventListener("scroll", scrolled, { passive: true });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", scrolled);
      observer.disconnect();
    };
  }, [box]);
  return view;
}

interface RowsProps {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** The names of the columns, as elements with the role `columnheader`. */
  readonly head: ComponentChildren;
  /** The same for the same thing, wherever it stands: the focus stays with it when rows come before it. */
  readonly keyOf: (at: number) => string;
  /** The cells of row `at`, with one link in them. */
  readonly row: (at: number) => ComponentChildren;
  /** Called with the last row that is drawn, so that more can be loaded. */
  readonly onReach: (to: number) => void;
}

/** A table whose links have a cursor: j/k or arrows move the focus, Enter follows the link, Home and End jump. */
export function Rows({ count, rowHeight, label, head, keyOf, row, onReach }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [cursor, setCursor] = useState({ at: -1, time: 0 });
  const shown = evenWindow(count, rowHeight, view);
  useEffect(() => onReach(shown.to), [shown.to, onReach]);
  const move = useCallback(
    (to: number) => {
      const at = Math.max(0, Math.min(count - 1, to));
      setCursor(({ time }) => ({ at, time: time + 1 }));
      const element = box.current;
      if (element === null) return;
      const top = at * rowHeight;
      if (top < element.scrollTop) element.scrollTop = top;
      if (top + rowHeight > element.scrollTop + element.clientHeight)
        element.scrollTop = top + rowHeight - element.clientHeight;
    },
    [count, rowHeight],
  );
  useListKeys({ move, cursor: cursor.at, count, page: Math.max(1, Math.floor(view.height / rowHeight) - 1) });
  const spacer = useHeight(count * rowHeight);
  return (
    <div class="rows" role="table" aria-label={label} aria-rowcount={count + 1}>
      <div class="rows-head" role="rowgroup">
        <div class="row-cells" role="row" aria-rowindex={1}>
          {head}
        </div>
      </div>
      <div class="rows-body" ref={box} role="rowgroup">
        <div class="rows-inner" role="presentation" ref={spacer}>
          {Array.from({ length: shown.to - shown.from }, (_, index) => {
            const at = shown.from + index;
            return (
              <Placed key={keyOf(at)} top={at * rowHeight} at={at} focus={at === cursor.at ? cursor.time : 0}>
                {row(at)}
              </Placed>
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface PlacedProps {
  readonly top: number;
  readonly at: number;
  /** Another number than before, and not 0: the link of this row gets the focus. */
  readonly focus: number;
  readonly children: ComponentChildren;
}

function Placed({ top, at, focus, children }: PlacedProps) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (ref.current !== null) ref.current.style.transform = `translateY(${top}px)`;
  }, [top]);
  // Before the next key is pressed.
  useLayoutEffect(() => {
    if (focus > 0) ref.current?.querySelector("a")?.focus({ preventScroll: true });
  }, [focus]);
  return (
    <div class="row row-cells" ref={ref} role="row" aria-rowindex={at + 2}>
      {children}
    </div>
  );
}

/** The policy of the page forbids style attributes; properties set by code are allowed. */
function useHeight(pixels: number): RefObject<HTMLDivElement> {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (ref.current !== null) ref.current.style.height = `${pixels}px`;
  }, [pixels]);
  return ref;
}

interface ListKeys {
  readonly move: (to: number) => void;
  readonly cursor: number;
  readonly count: number;
  readonly page: number;
}

export const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest("input, textarea, select, dialog, .xterm, [contenteditable]") !== null;

/** Where the focused row stands now. */
function focusedRow(): number | null {
  const index = document.activeElement?.closest(".row")?.getAttribute("aria-rowindex");
  return index === null || index === undefined ? null : Number(index) - 2;
}

function useListKeys({ move, cursor, count, page }: ListKeys): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const at = focusedRow() ?? cursor;
      const steps: Record<string, number> = {
        j: at + 1,
        k: at - 1,
        ArrowDown: at + 1,
        ArrowUp: at - 1,
        PageDown: at + page,
        PageUp: at - page,
        Home: 0,
        End: count - 1,
      };
      const to = steps[event.key];
      if (to === undefined || count === 0) return;
      move(to);
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [move, cursor, count, page]);
}

const ANCHORS = CSS.supports("overflow-anchor", "auto");

interface MeasuredProps {
  readonly count: number;
  readonly guess: (at: number) => number;
  readonly row: (at: number) => ComponentChildren;
  readonly label: string;
  /** Changes when other content is shown: measurements of before are void. */
  readonly content: string;
  readonly head?: ComponentChildren;
}

/** Rows of any height. Stays at the end while the reader is there; otherwise the visible rows stay in place. */
export function Measured({ count, guess, row, label, content, head }: MeasuredProps) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const view = useView(box, (element) => {
    isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 40;
  });
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const guessing = useRef(guess);
  guessing.current = guess;
  const heights = useRef<{ content: string; of: Heights }>();
  if (heights.current?.content !== content)
    heights.current = { content, of: new Heights((at) => guessing.current(at)) };
  const { of } = heights.current;
  of.resize(count);
  useEffect(() => void (isAtEnd.current = true), [content]);
  const measure = useCallback(
    (at: number, height: number) => {
      const grown = of.measured(at, height);
      if (grown === 0) return;
      // Browsers without scroll anchoring would move the visible rows.
      const element = box.current;
      if (!ANCHORS && element !== null && of.offset(at) < element.scrollTop) element.scrollTop += grown;
      redraw(undefined);
    },
    [of],
  );
  const shown = of.window(view);
  const before = useHeight(shown.before);
  const after = useHeight(shown.after);
  useLayoutEffect(() => {
    if (isAtEnd.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  });
  return (
    <div class="measured" ref={box} tabIndex={0} role="region" aria-label={label}>
      {head}
      <div ref={before} />
      {Array.from({ length: shown.to - shown.from }, (_, index) => (
        <MeasuredRow key={shown.from + index} at={shown.from + index} onHeight={measure}>
          {row(shown.from + index)}
        </MeasuredRow>
      ))}
      <div ref={after} />
    </div>
  );
}

interface MeasuredRowProps {
  readonly at: number;
  readonly onHeight: (at: number, height: number) => void;
  readonly children: ComponentChildren;
}

function MeasuredRow({ at, onHeight, children }: MeasuredRowProps) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    onHeight(at, element.getBoundingClientRect().height);
    const observer = new ResizeObserver(() => onHeight(at, element.getBoundingClientRect().height));
    observer.observe(element);
    return () => observer.disconnect();
  }, [at, onHeight]);
  return (
    <div class="measured-row" ref={ref}>
      {children}
    </div>
  );
}
