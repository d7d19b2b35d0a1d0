/** `reprise config`: where the settings are, whether they are right, and how to change them. */
import type { CommandGroup } from "../define.ts";
import { check, path } from "./check.ts";
import { edit } from "./edit.ts";
import { get } from "./get.ts";
import { set } from "./set.ts";

export const command: CommandGroup = {
  name: "config",
  summary: "Show, check and change settings.",
  commands: {
    path: { summary: "print the config files that apply here", load: async () => path },
    check: { summary: "report every mistake with its file, line and column", load: async () => check },
    get: { summary: "print the value of a key, and the file it comes from", load: async () => get },
    set: { summary: "change one key in your config file", load: async () => set },
    edit: { summary: "open a config file in your editor, and check it", load: async () => edit },
  },
  examples: [
    "reprise config path",
    "reprise config check",
    "reprise config get idle_timeout",
    "reprise config set idle_timeout 30m",
    "reprise config edit --project",
  ],
};
