/** The arguments of `reprise` for a step: message, flags and native options. Knows no engine. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Order, LabWorld } from "./world.ts";

export function commandLine(
  world: LabWorld,
  { step, talk, message }: Order,
): { args: readonly string[]; stdin: string | null } {
  const via = talk.via ?? "argument";
  const flags = (talk.flags ?? []).map((flag) => flag.replace("{idle}", world.lab.idle));
  if (talk.human !== true && talk.terminal === undefined && talk.text !== true) flags.push("--json");
  if (via === "stdin") flags.push("--stdin");
  if (via === "file") {
    const file = join(world.place.root, "message.txt");
    writeFileSync(file, message ?? "");
    flags.push("--message-file", file);
  }
  const words = message !== null && via === "argument" && talk.terminal !== "ui" ? [message] : [];
  const stdin = via === "stdin" ? message : null;
  const native = (talk.native ?? []).flatMap((word) => nativeWords(world, word));
  if (step.start !== undefined) {
    const { lab } = world;
    const quick = world.thrifty ? lab.quick : [];
    const model = talk.native?.includes("{options}") === true ? [] : lab.native;
    if (talk.text === true) {
      const [verb, ...rest] = lab.text(message ?? "");
      const own =
        verb?.startsWith("-") === true
          ? [...model, ...native, verb, ...rest]
          : [verb ?? "", ...model, ...native, ...rest];
      return { args: ["start", lab.engine, ...lab.flags, ...quick, ...flags, "--", ...own], stdin: null };
    }
    return {
      args: ["start", lab.engine, ...lab.flags, ...quick, ...flags, ...words, "--", ...model, ...native],
      stdin,
    };
  }
  const once = native.flatMap((word) => [`--native=${word}`]);
  const handle = world.shown?.handle ?? "0000";
  const guard = words[0]?.startsWith("-") === true ? ["--"] : [];
  return { args: ["resume", ...flags, ...once, handle, ...guard, ...words], stdin };
}

function nativeWords({ lab, place }: LabWorld, word: string): readonly string[] {
  const words = word === "{options}" ? lab.options.native : word === "{tools}" ? lab.tools : [word];
  return words.map((one) =>
    one.replaceAll(/\{(extra|more|project)\}/g, (_, key: "extra" | "more" | "project") => place[key]),
  );
}
