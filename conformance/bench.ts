/** The built Reprise that the cases of the suite run. */
import { cpSync, existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Bench, makeProject } from "../src/certify/place.ts";
import { Mistake } from "./options.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Copies the build aside, so that a new build meanwhile changes nothing. */
export function makeBench(root: string): Bench {
  const dist = join(ROOT, "dist");
  if (!existsSync(join(dist, "reprise.js")))
    throw new Mistake("dist/reprise.js is missing: run `npm run build` first");
  cpSync(dist, join(root, "dist"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  return { root, cli: join(root, "dist", "reprise.js"), project: makeProject(root) };
}
