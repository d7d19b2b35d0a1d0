/** Opens the picker on the user's terminal. */
import { runUi, type RunningUi } from "../terminal/widgets.ts";
import {
  type Exchange,
  firstPick,
  pick,
  type PickEffect,
  type Picked,
  type PickMessage,
  type PickRow,
  type PickWish,
} from "./pick-state.ts";
import { viewOfPick } from "./pick-view.ts";

export interface PickerOptions {
  readonly wish: PickWish;
  readonly colours: boolean;
  readonly now: () => number;
  /** The runs in parts: the first frame waits for none of them. */
  readonly rows: () => AsyncIterable<readonly PickRow[]>;
  readonly exchange: (row: PickRow) => Promise<Exchange>;
}

/** While the cursor moves, nothing is read. */
const REST_MS = 40;

export async function openPicker(options: PickerOptions): Promise<Picked> {
  const { wish, colours, now } = options;
  const terminal = { input: process.stdin, output: process.stdout, colours };
  let looking: NodeJS.Timeout | undefined;
  const picked = await runUi<ReturnType<typeof firstPick>, PickMessage, PickEffect | Load, Picked>(
    {
      first: (size) => ({
        state: firstPick(wish, { size, nowMs: now(), colours }),
        effects: [{ do: "load" }],
      }),
      update: pick,
      view: viewOfPick,
      ended: () => null,
      perform: (effect, ui) => {
        if (effect.do === "close") ui.close(effect.picked);
        else if (effect.do === "redraw") ui.redraw();
        else if (effect.do === "suspend") ui.suspend();
        else if (effect.do === "load") void load(options, ui);
        else {
          clearTimeout(looking);
          looking = setTimeout(() => void look(options, effect.row, ui), REST_MS);
        }
      },
    },
    terminal,
  );
  clearTimeout(looking);
  return picked;
}

interface Load {
  readonly do: "load";
}

type PickerUi = RunningUi<PickMessage, Picked>;

async function load({ rows }: PickerOptions, ui: PickerUi): Promise<void> {
  try {
    for await (const part of rows()) ui.post({ type: "rows", rows: part, done: false });
    ui.post({ type: "rows", rows: [], done: true });
  } catch (error) {
    ui.fail(error);
  }
}

async function look({ exchange }: PickerOptions, row: PickRow, ui: PickerUi): Promise<void> {
  try {
    ui.post({ type: "exchange", runId: row.runId, exchange: await exchange(row) });
  } catch (error) {
    ui.fail(error);
  }
}
