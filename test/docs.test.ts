/** Every link between pages, and every source file that a page names, leads somewhere. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const PAGES = [
  "README.md",
  "AGENTS.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
];
const LINK = /\]\(([^)\s]+)\)/g;
const FILE = /`((?:src|test|scripts|bench|conformance|docs|\.github)\/[\w./-]+\.[a-z]+)`/g;

test.each(PAGES)("%s names only pages, headings and files that exist", (page) => {
  const text = readFileSync(page, "utf8").replace(/^```[\s\S]*?^```/gm, "");
  const links = [...text.matchAll(LINK)].map(([, target = ""]) => target);
  const lost = links
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => !leadsSomewhere(page, target));
  const missing = [...text.matchAll(FILE)].map(([, file = ""]) => file).filter((file) => !existsSync(file));
  expect([...lost, ...missing]).toEqual([]);
});

function leadsSomewhere(page: string, target: string): boolean {
  const [path = "", heading] = target.split("#");
  const file = path === "" ? page : join(dirname(page), path);
  if (!existsSync(file)) return false;
  return heading === undefined || headingsOf(file).includes(heading);
}

/** As GitHub makes them: lower case, words joined by dashes, other signs left out. */
function headingsOf(file: string): readonly string[] {
  return [...readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-"),
  );
}
