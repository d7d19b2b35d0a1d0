/** Text that means harm to a terminal: a corpus of what terminals obey, and strings that are made of its parts at random. */

const ESC = "\u001b";
const BEL = "\u0007";
const ST = `${ESC}\\`;

/** Each alone does something to some terminal, or makes text read as what it is not. */
export const CORPUS: readonly string[] = [
  // Titles, clipboard, links, directory, notifications, colours, shell integration, images.
  ...[
    "0;owned",
    "1;owned",
    "2;owned",
    "52;c;b3duZWQ=",
    "52;p;?",
    "8;;https://evil.example",
    "7;file:///evil",
    "9;owned",
  ].map((body) => `${ESC}]${body}${BEL}`),
  ...[
    "777;notify;owned;x",
    "1337;File=inline=1:AAAA",
    "1337;SetUserVar=a=Yg==",
    "4;1;#ff0000",
    "10;?",
    "11;?",
    "12;#ff0000",
    "104",
    "110",
    "133;A",
    "633;A",
    "50;evil",
    "21337;x",
  ].map((body) => `${ESC}]${body}${ST}`),
  "\u009d0;owned\u009c",
  `${ESC}]0;never ended`,
  `${ESC}kowned${ST}`,
  `${ESC}lowned`,
  // DCS: sixel, queries, key definitions, tmux's way through. APC: kitty images. PM, SOS.
  `${ESC}Pq#0;2;0;0;0~~@@vv${ST}`,
  `${ESC}P$qm${ST}`,
  `${ESC}P+q544e${ST}`,
  `${ESC}P1;1|17/6f776e6564${ST}`,
  `${ESC}Ptmux;${ESC}${ESC}]0;owned${BEL}${ST}`,
  `${ESC}_Gf=24,s=1,v=1;AAAA${ST}`,
  `${ESC}^owned${ST}`,
  `${ESC}Xowned${ST}`,
  "\u0090q~\u009c",
  "\u009fGx\u009c",
  // What a terminal answers by typing.
  ...[
    "6n",
    "5n",
    "c",
    ">c",
    "=c",
    "0c",
    "?6n",
    ">q",
    "?u",
    "14t",
    "18t",
    "20t",
    "21t",
    "x",
    "?2004$p",
    "?996n",
  ].map((body) => `${ESC}[${body}`),
  `${ESC}Z`,
  "\u0005",
  "\u009b6n",
  // Modes: cursor keys, mouse, paste, screens, insertion, keyboard protocols, origin, margins, cursor, locks.
  ...[
    "?1h",
    "?9h",
    "?25l",
    "?47h",
    "?1000h",
    "?1002h",
    "?1003h",
    "?1004h",
    "?1006h",
    "?1049h",
    "?2004h",
    "?2026h",
    "?5h",
    "?6h",
    "?7l",
    "?66h",
    "4h",
    "20h",
    ">1u",
    "=31;1u",
    ">4;2m",
    "2 q",
    "1;2r",
    "?69h",
    "!p",
    "?3h",
    "2i",
    "5i",
    "22;0t",
    "8;1;1t",
    "2t",
  ].map((body) => `${ESC}[${body}`),
  `${ESC}=`,
  `${ESC}c`,
  `${ESC}(0`,
  `${ESC}%G`,
  `${ESC}#8`,
  `${ESC}n`,
  "\u000e",
  "\u000f",
  // Sequences that overwrite, hide or move earlier output.
  ...[
    "2J",
    "3J",
    "1A",
    "999A",
    "H",
    "1;1H",
    "2K",
    "1M",
    "1L",
    "8m",
    "38;5;0m",
    "7m",
    "5m",
    "s",
    "u",
    "1000000000C",
    "9999b",
    "0;0;0;0;0;0;0;0;0;0m",
  ].map((body) => `${ESC}[${body}`),
  `${ESC}7${ESC}8${ESC}M${ESC}D${ESC}E`,
  "all is well\rrm -rf /",
  "visible\b\b\b\b\b\b\bhidden!",
  "a\u0000b\u007fc",
  "\u0018\u001a\u001b",
  "\u0085next\u0084\u008d",
  "\u009b31mred",
  BEL,
  // The end of a paste, and what would be typed after it.
  `${ESC}[201~rm -rf ~\r`,
  `${ESC}[200~`,
  // Text that is not what it seems: order, width, nothing at all, tags, halves.
  "\u202etxt.exe\u202c",
  "\u2066\u2067\u2068x\u2069",
  "\u061c\u200e\u200f",
  "a\u200b\u200c\u200d\u2060\ufeffb",
  "\u00ad\u180e\u034f\u115f\u1160\u3164\uffa0",
  "\u2028\u2029",
  "\ufff9x\ufffay\ufffb",
  "\u{e0001}\u{e0068}\u{e0069}\u{e007f}",
  "\ud800",
  "\udfff\ud800",
  `e${"\u0301".repeat(300)}`,
  "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪",
  "\ufdfa".repeat(10),
  // Of layers in between: shells, tmux formats, printf, HTML, JSON, CSV.
  "#(touch owned) #{pane_title} #[fg=red]",
  "$(touch owned) `touch owned` ; touch owned",
  "%s%n%p \\x1b[31m \\u001b]0;x\\u0007",
  "<script>alert(1)</script> <!-- hidden -->",
  '"},{"session_id":"deadbeef-dead-4ead-8ead-deadbeefdead"',
  '=HYPERLINK("https://evil.example")',
];

/** As bytes, which no string can be: overlong forms, halves of characters, C1 alone, surrogates in UTF-8. */
export const RAW_BYTES: readonly Buffer[] = [
  [0xc0, 0x9b, 0x36, 0x6e],
  [0xe0, 0x80, 0x9b, 0x33, 0x31, 0x6d],
  [0xc1, 0x9b, 0x5d],
  [0x9b, 0x36, 0x6e],
  [0x9d, 0x30, 0x3b, 0x78, 0x9c],
  [0x90, 0x71, 0x7e, 0x9c],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf0, 0x9f, 0x98],
  [0xff, 0xfe, 0x1b, 0x5d, 0x30, 0x3b, 0x78, 0x07],
  [0xc2, 0x9b, 0x36, 0x6e],
  [0x1b, 0xc2, 0x9d, 0x78],
].map((bytes) => Buffer.from(bytes));

const PARTS: readonly string[] = [
  ...["[", "]", "P", "_", "^", "X", "c", "(", "#", "\\", "=", ">", "7", "8", "M", "Z", "N", "O", "k"].map(
    (one) => ESC + one,
  ),
  ...["\u009b", "\u009d", "\u0090", "\u009f", "\u009e", "\u0098", "\u009c", "\u0085"],
  ...[
    BEL,
    "\b",
    "\r",
    "\u0000",
    "\u0005",
    "\u000b",
    "\u000c",
    "\u000e",
    "\u000f",
    "\u0018",
    "\u001a",
    ESC,
    "\u007f",
    "\t",
  ],
  ...[
    "0;owned",
    "52;c;b3duZWQ=",
    "?1049h",
    "?25l",
    "6n",
    ">c",
    "2J",
    "8m",
    "1;1H",
    "?2004h",
    "201~",
    "tmux;",
    "q#0",
    "Gf=24;",
  ],
  ...[
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\u2028",
    "\u00ad",
    "\u{e0041}",
    "\ud83d",
    "\udc00",
    "\u0301\u0301",
  ],
  ...[
    "a",
    " ",
    "Z9",
    "中",
    "😀",
    "ß",
    '"',
    "\\",
    "{",
    "%",
    "#(x)",
    "$(x)",
    "`",
    ";",
    "?",
    ">",
    "<",
    "&",
    "|",
    "'",
    "/",
  ],
];

/** The corpus first, then chance; the same for the same seed. */
export function hostileStrings(seed: number, count: number): string[] {
  const chance = randomFrom(seed);
  const made = CORPUS.slice(0, count);
  while (made.length < count) {
    const length = 1 + Math.floor(chance() * 12);
    let text = "";
    for (let at = 0; at < length; at += 1) {
      const any = chance() < 0.15 ? String.fromCodePoint(Math.floor(chance() * 0x3000)) : null;
      text += any ?? PARTS[Math.floor(chance() * PARTS.length)] ?? "";
    }
    made.push(text);
  }
  return made;
}

/** mulberry32. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
