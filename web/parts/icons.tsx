/** The page's own icons: strokes on a grid of 24, drawn in the colour of the text. Decoration: words stand beside them. */

const PATHS = {
  inbox: "M4 13v5a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-5M4 13l3-8h10l3 8M4 13h5l1.5 3h3L15 13h5",
  runs: "M4 6h16M4 12h16M4 18h10",
  agents:
    "M12 4v3M7 7h10a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V9a2 2 0 0 1 2-2zM9.5 12v1.5M14.5 12v1.5",
  batches: "M5 5h4v14H5zM11 5h4v9h-4zM17 5h3v6h-3",
  reviews: "M5 5h14v11H10l-5 4V5zM9 9h6M9 12h4",
  usage: "M5 20V11M12 20V5M19 20v-6",
  doctor: "M4 12h4l2-6 4 12 2-6h4",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  search: "M11 5a6 6 0 1 1 0 12 6 6 0 0 1 0-12zM15.5 15.5 20 20",
  plus: "M12 5v14M5 12h14",
  play: "M8 5.5v13l10-6.5z",
  pause: "M9 6v12M15 6v12",
  stop: "M7 7h10v10H7z",
  fork: "M7 5v6a4 4 0 0 0 4 4h6M7 11v8M14 12l3 3-3 3",
  copy: "M9 9h10v10H9zM5 15V5h10",
  back: "M14 6l-6 6 6 6",
  open: "M9 6l6 6-6 6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  warn: "M12 4.5 21 19.5H3zM12 10v4M12 16.8v.2",
  tool: "M6 8l4 4-4 4M12 17h6",
  clock: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16zM12 8v4.5l3 1.8",
  shield: "M12 4l7 2.5V12c0 4-3 6.8-7 8-4-1.2-7-4-7-8V6.5zM9 12l2.2 2.2L15.2 10",
  download: "M12 5v10M8 11l4 4 4-4M5 19h14",
  keys: "M3 7h18v10H3zM7 10.5h.01M11 10.5h.01M15 10.5h.01M8 14h8",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
