import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { SLOW_FILES } from "./test/slow-files.ts";

const PATIENT = { testTimeout: 60_000, hookTimeout: 60_000 };

const ON_REQUEST: Readonly<Record<string, readonly string[]>> = {
  kill: ["test/kill/**/*.test.ts"],
  long: ["test/long/**/*.test.ts"],
  slow: SLOW_FILES,
};

/** `unit` runs on the source; `conformance` on the parts of the suite that need no engine; `e2e` runs the built CLI (`npm run build` first) with a deadline of its own. */
export default defineConfig({
  test: {
    pool: "forks",
    // Tests wait for processes more than they compute: four workers keep two cores busy.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "web/**/*.test.ts", "test/*.test.ts", "test/actors/*.test.ts"],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "conformance",
          include: ["conformance/*.test.ts"],
          testTimeout: 60_000,
        },
      },
      // Only when asked for, by `npm run test:kill`, `npm run test:long` and `npm run test:slow`.
      ...Object.entries(ON_REQUEST)
        .filter(([name]) => process.env["ON_REQUEST"] === name)
        .map(([name, include]) => ({ test: { name, include: [...include], ...PATIENT } })),
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts", "test/regressions/**/*.test.ts"],
          exclude: [...SLOW_FILES],
          ...PATIENT,
        },
      },
    ],
  },
});
