/** `--detach` of `start` and `resume`: a separate process runs the attempt, and the caller gets the handle. */
import type { HoldRequest } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import type { Context } from "./context.ts";

export async function detach(
  context: Context,
  options: { readonly json?: true; readonly quiet?: true },
  deps: Deps,
  wish: HoldRequest,
): Promise<number> {
  const { launchHolder } = await import("../detached/detached.ts");
  // Does not pass on this terminal: a user who attaches brings one.
  const launched = await launchHolder(deps, withoutTerminal(wish));
  const { handle, runId, attempt, warnings, parent = null } = launched;
  if (options.json === true)
    context.printJson({ ok: true, handle, runId, attempt, parent, detached: true, warnings });
  else {
    context.print(handle);
    if (parent !== null && options.quiet === undefined) {
      const session = wish.do === "resume" ? wish.request.session : undefined;
      const which = session === undefined ? parent : `${parent} --session ${session}`;
      context.log.info(`It is a fork. Run ${parent} keeps its conversation: reprise resume ${which} "…"`);
    }
    if (options.quiet === undefined)
      context.log.info(
        `It runs in the background. Attach: reprise attach ${handle}   Stop: reprise stop ${handle}`,
      );
  }
  return 0;
}

function withoutTerminal(wish: HoldRequest): HoldRequest {
  if (wish.do === "start") return { ...wish, request: { ...wish.request, terminal: null } };
  return { ...wish, request: { ...wish.request, terminal: null } };
}
