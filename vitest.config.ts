import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** `unit` runs on the source; `conformance` on the parts of the suite that need no engine; `e2e` runs the built CLI (`npm run build` first) with a deadline of its own. */
export default defineConfig({
  test: {
    pool: "forks",
    // Tests wait for processes more than they compute: two workers leave two cores idle for half of the time.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "test/*.test.ts", "test/actors/*.test.ts"],
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
      // Only when asked for, by `npm run test:kill` and `npm run test:long`.
      ...["kill", "long"]
        .filter((name) => process.env["STORMS"] === name)
        .map((name) => ({ test: { name, include: [`test/${name}/**/*.test.ts`] } })),
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts", "test/regressions/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
