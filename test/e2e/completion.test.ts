/** The completion scripts, executed by the shells themselves: a line is typed in a terminal, and Tab completes it. */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

/** How a shell starts without the user's settings, and reads the script. */
const SHELLS = {
  bash: ["bash --norc --noprofile", "PS1='READY> '; source SCRIPT"],
  zsh: [
    "zsh -f",
    "PS1='READY> '; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -D; source SCRIPT",
  ],
  fish: [
    "fish --no-config",
    "function fish_prompt; echo -n 'READY> '; end; set -g fish_autosuggestion_enabled 0; source SCRIPT",
  ],
} as const;
type Shell = keyof typeof SHELLS;
const NAMES = Object.keys(SHELLS) as Shell[];

let box: Sandbox;
let handle: string;
beforeAll(async () => {
  box = new Sandbox();
  const words = ["--tag", "area:ui", "--tag", "urgent", "--name", "cart: the rename"];
  handle = String((await box.json(["start", "demo", "rename the cart module", ...words]))["handle"]);
  await box.json(["start", "demo", "fix: the flaky test"]);
  mkdirSync(join(box.cwd, "runbooks"));
  writeFileSync(join(box.cwd, "runbooks", "r.toml"), '[agent.tidier]\nengine = "demo"\nprompt = "tidy up"\n');
  writeFileSync(join(box.cwd, "an output.jsonl"), "");
}, 120_000);
afterAll(() => box[Symbol.dispose]());

/** What is typed, and the line after Tab. */
const typed = (): readonly (readonly [string, string])[] => [
  ["res", "resume"],
  ["start openc", "start opencode"],
  ["list --status int", "list --status interrupted"],
  ["list --status=int", "list --status=interrupted"],
  ["list --color=al", "list --color=always"],
  ["--color=never pipeline ca", "--color=never pipeline cancel"],
  ["help resumi", "help resuming"],
  [`show ${handle.slice(0, 6)}`, `show ${handle}`],
  ["show car", "show cart:\\ the\\ rename"],
  ['show "cart: t', 'show "cart: the rename"'],
  ["list --tag ar", "list --tag area:ui"],
  ["list --tag area:u", "list --tag area:ui"],
  ["start demo --tag ur", "start demo --tag urgent"],
  [`tag ${handle} +ar`, `tag ${handle} +area:ui`],
  [`tag ${handle} -ur`, `tag ${handle} -urgent`],
  ["agent run tid", "agent run tidier"],
  ["explain an", "explain an\\ output.jsonl"],
];

test.concurrent.for(NAMES)(
  "Tab in %s completes names, tags, values and files",
  { timeout: 180_000 },
  async (shell, { skip }) => {
    skip(...lack(shell));
    using screen = await opened(shell);
    for (const [line, completed] of typed()) {
      screen.tmux("send-keys", "-l", `reprise ${line}`);
      await screen.shows(ends(`reprise ${line}`));
      screen.key("Tab");
      await screen.shows(ends(`reprise ${completed}`));
      screen.key("C-u");
      await screen.shows(ends(""));
    }
  },
);

test.concurrent.for(["zsh", "fish"] as const)(
  "%s shows titles beside handles, colons included",
  async (shell, { skip, expect: expectThat }) => {
    skip(...lack(shell));
    using screen = await opened(shell);
    screen.tmux("send-keys", "-l", "reprise show ");
    screen.key("Tab");
    const text = await screen.shows("demo: fix: the flaky test");
    expectThat(text).toMatch(new RegExp(`${handle} .*demo: cart: the rename`));
  },
);

test("no other shell has a script", async () => {
  expect(await box.run(["completion", "fishs"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Did you mean fish"),
  });
  expect(await box.run(["completion"])).toMatchObject({ code: 2 });
});

function lack(shell: Shell): [boolean, string] {
  const missing = spawnSync(shell, ["--version"]).status === 0 ? "tmux" : shell;
  return [missing !== "tmux" || !HAS_TMUX, `${missing} is not installed: apt-get install ${missing}`];
}

async function opened(shell: Shell): Promise<Screen> {
  const [program, ready] = SHELLS[shell];
  const script = join(box.root, `completion.${shell}`);
  writeFileSync(script, (await box.run(["completion", shell])).stdout);
  const screen = new Screen(box, { name: `${shell}-${(screens += 1)}`, cols: 100, rows: 30 });
  screen.type(`exec ${program}`);
  screen.type(`${ready.replace("SCRIPT", script)}; echo SOUR''CED`);
  await screen.shows(/^SOURCED\s+READY> \s*$/m);
  return screen;
}
let screens = 0;

/** The last line of the screen. */
const ends = (line: string) => new RegExp(`READY> ${line.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")}\\s*$`);
