/** What the suite does in a case beyond `doctor --certify`: its acts, terminals, the engines' own UIs, fixtures. */
import { attemptOf, interrupt, STEP_DEADLINE_MS } from "../src/certify/interrupt.ts";
import { type Running, tail, within } from "../src/certify/place.ts";
import type { Extras, Order, LabWorld } from "../src/certify/world.ts";
import { ACTS } from "./acts.ts";
import { labNamed } from "./pinned.ts";
import { record } from "./record.ts";
import { leave, runOnTerminal, say, Terminal } from "./terminal.ts";

export const EXTRAS: Extras = {
  acts: ACTS,
  async onTerminal(world, { talk, env }, args) {
    const cwd = world.place[talk.from ?? "project"];
    const home = talk.home === "other" ? world.place.extra : world.place.home;
    if (talk.terminal === "ui") labNamed(world.lab.id).ui?.trust({ ...world.place, home });
    const command = [world.bench.cli, ...args];
    return talk.terminal === undefined
      ? runOnTerminal(process.execPath, command, { cwd, env, stdin: null })
      : Terminal.open(world.place, [process.execPath, ...command], { cwd, env });
  },
  useUi,
  pages: pagesOf,
  record({ lab, place, shown }, name) {
    if (shown !== null) record(name, labNamed(lab.id), place, shown);
  },
};

/**
 * Types the message, waits for the answer on the screen unless the turn must be cut short, and leaves or is
 * interrupted.
 */
async function useUi(world: LabWorld, { step, message }: Order, running: Running): Promise<void> {
  const { ui } = labNamed(world.lab.id);
  if (ui === null || message === null || !(running instanceof Terminal))
    throw new Error("no message to type, or no UI to type it into");
  const turn = () =>
    world.server.requests.findLast(({ kind, users }) => kind === "turn" && users.at(-1) === message);
  await say(running, ui, message, () => turn() !== undefined);
  const cut = step.interrupt;
  const answer = `SEEN users=${turn()?.users.length ?? 0} [^]*${ui.done.source}`;
  if (cut === undefined || cut.at === "after") {
    await running.shows(new RegExp(answer));
    world.screen = running.text();
  }
  if (cut !== undefined) return interrupt(world, cut, running);
  const agent = attemptOf(world)?.agent ?? null;
  if (agent === null) throw new Error("Reprise has not recorded the agent that is on the screen");
  return leave(running, ui, agent.pid);
}

/** What a person is shown afterwards. */
async function pagesOf(
  world: LabWorld,
  env: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const pages: Record<string, string> = {};
  for (const name of ["show", "logs"]) {
    const args = [world.bench.cli, name, world.shown?.handle ?? ""];
    const launched = runOnTerminal(process.execPath, args, { cwd: world.place.root, env, stdin: null });
    const { code, stdout } = await within(launched.ended, STEP_DEADLINE_MS, `\`reprise ${name}\` ended`);
    pages[`\`reprise ${name}\``] = stdout;
    world.log.push(`$ reprise ${name}: exit ${code}\n${tail(stdout)}`);
  }
  return pages;
}
