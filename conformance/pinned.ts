/** The labs of `src/certify/`, each with the pinned program of the suite in it. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Lab, LabPlace } from "../src/certify/lab.ts";
import { claudeLab, type EngineLab, LABS as ENGINE_LABS } from "../src/certify/labs.ts";

/** What the screen of an engine's UI shows. */
export interface LabUi {
  /** It takes a message. */
  readonly ready: RegExp;
  /** Stands below an answer as soon as its turn is over. */
  readonly done: RegExp;
  /** It wants Ctrl-C a second time; null: one is enough. */
  readonly again: RegExp | null;
  /** Settles what it would ask about the project before it takes a message. */
  trust(place: LabPlace): void;
}

export interface PinnedLab extends Lab {
  readonly version: string;
  /** What the names of recorded fixtures begin with. */
  readonly fixtures: string;
  /** The id that stands in fixtures for every session. */
  readonly sample: string;
  /** How its own UI is used; null: no case uses it. */
  readonly ui: LabUi | null;
}

type Pin = Omit<PinnedLab, keyof EngineLab>;

const CODEX_UI: LabUi = {
  // Both lines below the input: while a session is loading there is only the second, and keys are lost.
  ready: /gpt-\w+ \w+ · [\s\S]*\? for shortcuts/,
  done: /Worked for/,
  again: null,
  trust: (place) => {
    const config = join(place.home, ".codex", "config.toml");
    appendFileSync(config, `[projects.${JSON.stringify(place.project)}]\ntrust_level = "trusted"\n`);
  },
};

const CLAUDE_UI: LabUi = {
  ready: /\? for shortcuts|shift\+tab to cycle/,
  done: /✻ \S+ for \d/,
  again: /Press Ctrl-C again to exit/,
  trust: () => {},
};

/** Programs are relative to the folder of the installed packages. */
const PINS: Readonly<Record<string, Pin>> = {
  codex: {
    version: "0.166.0",
    fixtures: "lab-",
    sample: "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0",
    program: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    ui: CODEX_UI,
  },
  claude: {
    version: "2.1.325",
    fixtures: "lab-",
    sample: "48523434-5870-47de-9a81-323ac06cb7a6",
    program: "claude-2.1.325/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
    ui: CLAUDE_UI,
  },
  "claude-197": {
    version: "2.1.197",
    fixtures: "lab-v197-",
    sample: "48523434-5870-47de-9a81-323ac06cb7a6",
    program: "@anthropic-ai/claude-code-linux-x64/claude",
    ui: CLAUDE_UI,
  },
  gemini: {
    version: "0.61.0",
    fixtures: "lab-",
    sample: "bd8c364_-65e9-4fe7-ad3f-e42079dcb246",
    program: "@google/gemini-cli/bundle/gemini.js",
    ui: null,
  },
  opencode: {
    version: "1.18.33",
    fixtures: "lab-",
    sample: "ses_e22d9232bffeeGCHNmGWFLaPTI",
    program: "opencode-linux-x64-baseline/bin/opencode",
    ui: null,
  },
};

const MODULES = fileURLToPath(new URL("./engines/node_modules/", import.meta.url));

export const LABS: readonly PinnedLab[] = ENGINE_LABS.flatMap((lab) =>
  lab.id === "claude" ? [lab, claudeLab("claude-197", false)] : [lab],
).map((lab) => {
  const pin = PINS[lab.id];
  if (pin === undefined) throw new Error(`no program is pinned for ${lab.id}`);
  return { ...lab, ...pin, program: `${MODULES}${pin.program}` };
});

export function labNamed(id: string): PinnedLab {
  const lab = LABS.find((one) => one.id === id);
  if (lab === undefined) throw new Error(`no such engine: ${id}`);
  return lab;
}
