/** `reprise notify test`: shows whether notifications arrive. */
import { NOTICE_EVENTS } from "../core/kinds.ts";
import { send } from "../notify/notify.ts";
import { type CommandGroup, defineCommand, JSON_FLAG } from "./define.ts";

const test = defineCommand({
  name: "notify test",
  summary:
    "Send a test notification through every channel and report the results. Exits with 1 if one fails.",
  options: { json: JSON_FLAG },
  examples: ["reprise notify test", "reprise notify test --json"],
  run: async ({ options }, context) => {
    const deps = await context.open({ cwd: null, badConfig: "refuse" });
    const results = await send(deps, {
      event: "test",
      text: "Reprise can notify you.",
      facts: { next: "reprise status" },
    });
    const isOk = results.length > 0 && results.every(({ failed }) => failed === null);
    if (options.json === true) context.printJson({ ok: isOk, results });
    else {
      for (const { way, failed } of results)
        context.print(failed === null ? `sent: ${way}` : `failed: ${way}: ${failed}`);
      if (results.length === 0)
        context.print(
          "No way to notify you: no desktop was found, and the config has no notify.command and no notify.webhook.",
        );
    }
    return isOk ? 0 : 1;
  },
});

export const command: CommandGroup = {
  name: "notify",
  summary: `Notifications about ${NOTICE_EVENTS.join(", ")} events: desktop, command, webhook.`,
  commands: { test: { summary: "send a test notification", load: async () => test } },
  examples: ["reprise notify test"],
};
