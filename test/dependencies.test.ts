/** The page about dependencies says what package.json says, and there are few of them. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const at = (path: string) => new URL(`../${path}`, import.meta.url);
const { dependencies, devDependencies } = JSON.parse(readFileSync(at("package.json"), "utf8")) as {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};
const [, installed = "", bundled = "", tools = ""] = readFileSync(at("docs/dependencies.md"), "utf8").split(
  /^## /m,
);

/** Each row has a package and a reason. */
const packagesIn = (section: string) =>
  [...section.matchAll(/^\| `([^`]+)` \| (\S.{5,}) \|$/gm)].map(([, name = ""]) => name).toSorted();

test("docs/dependencies.md lists every package of package.json, with a reason, and no other", () => {
  expect(packagesIn(installed)).toEqual(Object.keys(dependencies).toSorted());
  expect([...packagesIn(bundled), ...packagesIn(tools)].toSorted()).toEqual(
    Object.keys(devDependencies).toSorted(),
  );
});

test("the product has at most 14 packages, all with exact versions", () => {
  expect(packagesIn(installed).length + packagesIn(bundled).length).toBeLessThanOrEqual(14);
  for (const version of Object.values({ ...dependencies, ...devDependencies }))
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
});

test("the product contains exactly the packages that the source imports", () => {
  const names = new Set<string>();
  const files = ["src", "web"].flatMap((folder) =>
    readdirSync(at(folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  );
  for (const file of files) {
    if (!/\.tsx?$/.test(file) || /\.test\.ts$|\bconformance|fixtures/.test(file)) continue;
    const text = readFileSync(at(file), "utf8");
    for (const [, name = ""] of text.matchAll(/(?:from|import\(|require\() ?"((?:@[\w.-]+\/)?[a-z][\w.-]*)/g))
      if (!name.startsWith("node:") && name !== "node") names.add(name);
  }
  expect([...names].toSorted()).toEqual([...packagesIn(installed), ...packagesIn(bundled)].toSorted());
});

test("no dependency runs a script when it is installed", () => {
  const lock = JSON.parse(readFileSync(at("package-lock.json"), "utf8")) as {
    packages: Record<string, { hasInstallScript?: true; dev?: true }>;
  };
  const scripts = Object.entries(lock.packages)
    .filter(([, entry]) => entry.hasInstallScript === true && entry.dev !== true)
    .map(([path]) => path);
  // It only checks whether its binary fits, and would build a missing one.
  expect(scripts).toEqual(["node_modules/@photostructure/sqlite"]);
});
