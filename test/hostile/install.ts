/** P13: the package as users get it, installed without install scripts. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Promised, Verdict } from "../crash/promise.ts";

export const install: Promised = {
  id: "P13",
  what: "checks of an install without scripts",
  wrong: "failed",
  means:
    "After `npm install --ignore-scripts` of the package, `--version`, `list`, `doctor`, headless runs and terminals work; where a native package is missing, Reprise reports which features do not work",
  check,
};

interface Expected {
  readonly args: readonly string[];
  readonly exit: number;
  readonly says?: RegExp;
}

const WHOLE: readonly Expected[] = [
  { args: ["--version"], exit: 0, says: /^\d+\.\d+\.\d+\n$/ },
  { args: ["start", "demo", "hello", "--json"], exit: 0, says: /"ok":true/ },
  { args: ["list"], exit: 0, says: /demo +completed/ },
  { args: ["start", "demo", "hello", "--mode", "pty", "--quiet"], exit: 0 },
  { args: ["doctor"], exit: 0, says: /sound \(sqlite/ },
];
const WITHOUT_TERMINALS: readonly Expected[] = [
  { args: ["--version"], exit: 0 },
  { args: ["start", "demo", "hello", "--quiet"], exit: 0 },
  { args: ["list"], exit: 0, says: /demo +completed/ },
  { args: ["doctor"], exit: 0, says: /terminals cannot be opened: the package @lydell\/node-pty/ },
  {
    args: ["start", "demo", "hello", "--mode", "pty"],
    exit: 6,
    says: /@lydell\/node-pty .* Use --mode pipe/,
  },
];
const WITHOUT_SQLITE: readonly Expected[] = [
  { args: ["--version"], exit: 0 },
  { args: ["--help"], exit: 0 },
  { args: ["list"], exit: 6, says: /@photostructure\/sqlite is missing/ },
  { args: ["doctor"], exit: 6, says: /@photostructure\/sqlite is missing/ },
  { args: ["start", "demo", "hello"], exit: 6, says: /@photostructure\/sqlite is missing/ },
];

async function check(): Promise<Verdict> {
  const root = mkdtempSync(join(tmpdir(), "reprise-install-"));
  const app = join(root, "app");
  try {
    mkdirSync(app);
    writeFileSync(join(app, "package.json"), "{}\n");
    npm(resolve("."), ["pack", "--ignore-scripts", "--pack-destination", root]);
    const [tarball = ""] = readdirSync(root).filter((name) => name.endsWith(".tgz"));
    npm(app, [
      "install",
      "--ignore-scripts",
      "--prefer-offline",
      "--no-audit",
      "--no-fund",
      join(root, tarball),
    ]);
    const broken = WHOLE.flatMap((one) => judge(root, "installed", one));
    renameSync(join(app, "node_modules/@lydell"), join(root, "lydell"));
    broken.push(...WITHOUT_TERMINALS.flatMap((one) => judge(root, "without node-pty", one)));
    renameSync(join(app, "node_modules/@photostructure"), join(root, "photostructure"));
    broken.push(...WITHOUT_SQLITE.flatMap((one) => judge(root, "without SQLite", one)));
    const tried = WHOLE.length + WITHOUT_TERMINALS.length + WITHOUT_SQLITE.length;
    return { tried, broken, untried: ["macOS, arm64, musl"], figures: {} };
  } catch (error) {
    // No registry can be asked, or the cache lacks something.
    return {
      tried: 0,
      broken: [],
      untried: [`the package could not be installed: ${String(error)}`],
      figures: {},
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function npm(cwd: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync("npm", [...args, "--silent"], {
    cwd,
    encoding: "utf8",
    timeout: 180_000,
  });
  if (status !== 0) throw new Error(`npm ${args[0] ?? ""} failed: ${stderr.slice(-300)}`);
}

function judge(root: string, where: string, { args, exit, says }: Expected): string[] {
  const env = { PATH: process.env["PATH"], HOME: root, REPRISE_HOME: join(root, "state"), LANG: "C.UTF-8" };
  const program = join(root, "app/node_modules/.bin/reprise");
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: root,
    env,
    encoding: "utf8",
    timeout: 60_000,
  });
  const text = stdout + stderr;
  const told = `${where}, ${args.join(" ")}`;
  if (status !== exit) return [`${told}: exit ${status ?? "none"}: ${text.slice(0, 300)}`];
  return says === undefined || says.test(text) ? [] : [`${told}: it says ${text.slice(0, 300)}`];
}
