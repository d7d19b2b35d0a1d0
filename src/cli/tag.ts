/** `reprise tag <handle> [+tag…] [-tag…]` */
import { Fault } from "../core/faults.ts";
import { MOST_TAGS } from "../core/label.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { relabel } from "../run/label.ts";
import { selectRun } from "../run/select.ts";
import { defineCommand, JSON_FLAG, repeatable, RUN_HANDLE, tagWord } from "./define.ts";

/** Commander would read `-tag` as an option, so each word of change becomes one of ours. */
function splitTags(_parser: unknown, args: readonly string[]): { own: readonly string[]; words: null } {
  const end = args.indexOf("--");
  const own = args.flatMap((word, at) => {
    if (end !== -1 && at >= end) return [word];
    if (at > 0 && ["--add", "--remove"].includes(args[at - 1] ?? "")) return [word];
    if (/^\+./.test(word)) return [`--add=${word.slice(1)}`];
    return /^-[^-]/.test(word) && word !== "-h" ? [`--remove=${word.slice(1)}`] : [word];
  });
  return { own, words: null };
}

export const command = defineCommand({
  name: "tag",
  summary: "Add or remove tags of a live or ended run. Without changes, print its tags.",
  usage: "<handle> [+tag…] [-tag…]",
  args: { handle: RUN_HANDLE },
  excess: "Put + before a tag to add it, or - to remove it: reprise tag HANDLE +review -draft",
  options: {
    add: repeatable("<tag>", "the same as +tag", { values: "tags" }),
    remove: repeatable("<tag>", "the same as -tag", { values: "tags" }),
    json: JSON_FLAG,
  },
  split: splitTags,
  signed: "tags",
  examples: ["reprise tag 1a2b3c4d +review -draft", "reprise tag 1a2b3c4d", "reprise list --tag review"],
  run: async ({ args, options, reply }, context) => {
    const add = (options.add ?? []).map(tagWord);
    const remove = new Set((options.remove ?? []).map(tagWord));
    const both = add.find((tag) => remove.has(tag));
    if (both !== undefined) throw new Fault("usage", `Add or remove the tag ${both}, not both.`);
    const deps = await context.open({ cwd: null });
    const found = await selectRun(deps, args.handle);
    const changes = add.length + remove.size > 0;
    const run = changes
      ? await relabel(deps, found, ({ name, tags = [] }) => ({ name, tags: changed(tags, add, remove) }))
      : found;
    const tags = run.tags ?? [];
    reply({ handle: run.handle, runId: run.runId, tags }, () => {
      for (const tag of tags) context.print(harmlessLine(tag));
    });
    return 0;
  },
});

function changed(
  tags: readonly string[],
  add: readonly string[],
  remove: ReadonlySet<string>,
): readonly string[] {
  const now = [...new Set([...tags, ...add])].filter((tag) => !remove.has(tag));
  if (now.length > MOST_TAGS && add.length > 0)
    throw new Fault("usage", `A run has at most ${MOST_TAGS} tags; this one would have ${now.length}.`);
  return now;
}
