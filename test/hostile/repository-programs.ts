/** P18: no program that a repository's settings name is run by Reprise's own git. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { IssueBox } from "../e2e/issue-box.ts";

export const repositoryPrograms: Promised = {
  id: "P18",
  what: "settings of a repository that name a program",
  wrong: "started it",
  means:
    "`start --isolate worktree`, `rm`, `prune`, `issues run` and `review` start no program that a repository's git settings, included files (also those for a worktree or a branch alone), attributes or hooks name",
  check,
};

/** `!`: git wants it in front of a command. The name of the setting is the name of the trace that its program leaves. */
const SETTINGS: readonly string[] = [
  ..."core.fsmonitor core.editor core.pager core.askPass core.sshCommand core.gitProxy core.alternateRefsCommand".split(
    " ",
  ),
  ..."sequence.editor credential.helper credential.https://example.org.helper web.browser imap.tunnel".split(
    " ",
  ),
  ..."filter.evil.clean filter.evil.smudge filter.evil.process diff.external diff.evil.command".split(" "),
  ..."diff.evil.textconv merge.evil.driver mergetool.evil.cmd mergetool.evil.path merge.tool difftool.evil.cmd".split(
    " ",
  ),
  ..."difftool.evil.path diff.tool gpg.program gpg.ssh.program gpg.x509.program gpg.openpgp.program".split(
    " ",
  ),
  ..."gpg.ssh.defaultKeyCommand pager.log pager.status pager.diff pager.branch browser.evil.cmd browser.evil.path".split(
    " ",
  ),
  ..."man.evil.cmd man.evil.path remote.origin.uploadpack remote.origin.receivepack remote.origin.vcs".split(
    " ",
  ),
  ..."interactive.diffFilter trailer.evil.command trailer.evil.cmd uploadpack.packObjectsHook".split(" "),
  ..."tar.evil.command sendemail.sendmailCmd guitool.evil.cmd instaweb.httpd".split(" "),
  ..."!alias.status !alias.add !alias.commit !alias.worktree !submodule.module.update".split(" "),
];
const SWITCHES = [
  ["commit.gpgSign", "true"],
  ["tag.gpgSign", "true"],
  ["log.showSignature", "true"],
  ["filter.evil.required", "true"],
  ["remote.origin.url", "/nowhere"],
  ["remote.origin.promisor", "true"],
] as const;
const HOOKS =
  "pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-merge pre-merge-commit post-rewrite pre-auto-gc post-index-change reference-transaction fsmonitor-watchman".split(
    " ",
  );
/** `gitdir` and `branch`: files that are included only in worktrees, or only on Reprise's branches. */
const PLACES = ["config", "included", "worktree", "gitdir", "branch"] as const;
const CONDITIONS = { gitdir: "gitdir:**/worktrees/**", branch: "onbranch:reprise/**" } as const;
const isConditional = (place: (typeof PLACES)[number]) => place === "gitdir" || place === "branch";

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const broken: string[] = [];
  let fired = 0;
  const places = PLACES.filter((_place, at) => !short || at % 2 !== seed % 2);
  for (const place of places) {
    progress(`programs of a repository: ${place}`);
    using box = new IssueBox();
    const traces = plant(box, place);
    // The trap must work: git as a person calls it runs some of these programs.
    for (const args of [["status"], ["add", "-A"], ["commit", "-m", "x"], ["diff", "HEAD"]])
      spawnSync("git", args, { cwd: box.cwd, env: box.env({ GIT_CONFIG_NOSYSTEM: "1" }), input: "" });
    fired += readdirSync(traces).length;
    clear(traces);
    broken.push(...(await provoke(box, place)).map((wrong) => `${place}: ${wrong}`));
    broken.push(...readdirSync(traces).map((name) => `${place}: ${name} was run`));
  }
  if (fired < places.length) broken.push("git itself ran none of the programs, so nothing was proved");
  const tried = places.length * (SETTINGS.length + HOOKS.length);
  return { tried, broken, untried: [], figures: { "programs that plain git ran": fired } };
}

function plant(box: IssueBox, place: (typeof PLACES)[number]): string {
  const [traces, programs] = [join(box.root, "traces"), join(box.root, "programs")];
  for (const folder of [traces, programs]) mkdirSync(folder);
  box.issue("a", "@@write:a.txt");
  box.issue("b", "@@write:b.txt");
  box.commit();
  const program = (name: string) => {
    const file = join(programs, name.replaceAll(/[^\w.-]/g, "_"));
    writeFileSync(file, `#!/bin/sh\n: > '${traces}/${name.replaceAll(/[^\w.-]/g, "_")}'\nexec cat\n`);
    chmodSync(file, 0o755);
    return file;
  };
  const settings = SETTINGS.map((key) => {
    const name = key.replace(/^!/, "");
    return [name, `${key === name ? "" : "!"}${program(name)}`] as const;
  });
  const file = settingsFile(box, place);
  for (const [key, value] of [...settings, ...SWITCHES]) box.git("config", "--file", file, key, value);
  if (place === "included") box.git("config", "include.path", "included");
  if (place === "gitdir" || place === "branch")
    box.git("config", `includeIf.${CONDITIONS[place]}.path`, "included");
  if (place === "worktree") box.git("config", "extensions.worktreeConfig", "true");
  mkdirSync(join(box.cwd, ".git/info"), { recursive: true });
  attribute(box, "* filter=evil diff=evil merge=evil");
  for (const hook of HOOKS) {
    const link = join(box.cwd, ".git/hooks", hook);
    mkdirSync(join(link, ".."), { recursive: true });
    writeFileSync(link, `#!/bin/sh\nexec '${program(`hook.${hook}`)}' < /dev/null\n`);
    chmodSync(link, 0o755);
  }
  return traces;
}

function settingsFile(box: IssueBox, place: (typeof PLACES)[number]): string {
  const file = place === "config" ? "config" : place === "worktree" ? "config.worktree" : "included";
  return join(box.cwd, ".git", file);
}

function attribute(box: IssueBox, lines: string): void {
  writeFileSync(join(box.cwd, ".git/info/attributes"), `${lines}\n`);
}

/** Every command of ours that asks git. */
async function provoke(box: IssueBox, place: (typeof PLACES)[number]): Promise<readonly string[]> {
  const wrong: string[] = [];
  const must = async (code: number, ...args: string[]) => {
    const result = await box.run(args);
    if (result.code !== code)
      wrong.push(`${args.join(" ")}: exit ${result.code}: ${result.stderr.slice(0, 300)}`);
    return result;
  };
  // Nothing goes on without a filter that the repository requires, and the filter is not run either.
  if (place !== "branch") await must(2, "start", "demo", "hello", "--isolate", "worktree");
  // The checkout, by which a batch is judged, does not need a filter that is only named elsewhere.
  if (!isConditional(place)) await must(2, ...box.batchArgs());
  box.git("config", "--file", settingsFile(box, place), "filter.evil.required", "false");
  const started = await box.json(["start", "demo", "hello @@write:new.txt", "--isolate", "worktree"]);
  await must(0, "prune", "--older-than", "1ms", "--dry-run");
  await must(8, "rm", started["handle"]);
  await must(0, "rm", started["handle"], "--discard-work");
  await must(0, ...box.batchArgs("--dry-run"));
  // What the agents write is not to be converted; what is checked out is.
  attribute(box, "issues/* filter=evil\n* diff=evil merge=evil");
  await must(0, ...box.batchArgs());
  await must(0, "issues", "status");
  await must(0, "doctor");
  const comments = join(box.root, "comments.jsonl");
  const comment = { id: 1, body: "Prices are floats here.", author: "alice", author_association: "MEMBER" };
  const where = { file_path: "a.txt", line_number: 1, created_at: "2026-04-14T16:00:49Z" };
  writeFileSync(comments, `${JSON.stringify({ ...comment, ...where })}\n`);
  await must(0, "review", "acme/shop#42", "--comments", comments, "--run", "--force-cwd");
  return wrong;
}

function clear(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
}
