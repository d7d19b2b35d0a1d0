/**
 * Counts inside one process what cannot be seen from outside: SQL statements, and what was allocated. To be given to
 * `node --require` with a young generation so large that nothing is collected; the counts go to
 * the end of the file that COUNTS_INSIDE names.
 */
const { appendFileSync } = require("node:fs");
const Module = require("node:module");
const { getHeapSpaceStatistics } = require("node:v8");

const file = process.env.COUNTS_INSIDE;
delete process.env.COUNTS_INSIDE;
let statements = 0;

const load = Module._load;
Module._load = function (...args) {
  const loaded = load.apply(this, args);
  if (typeof loaded?.DatabaseSync === "function") {
    Module._load = load;
    loaded.DatabaseSync = class extends loaded.DatabaseSync {
      exec(...words) {
        statements += 1;
        return super.exec(...words);
      }
      prepare(...words) {
        const statement = super.prepare(...words);
        for (const name of ["run", "get", "all", "iterate"]) {
          const value = (...bound) => {
            statements += 1;
            return Object.getPrototypeOf(statement)[name].apply(statement, bound);
          };
          Object.defineProperty(statement, name, { value });
        }
        return statement;
      }
    };
  }
  return loaded;
};

process.on("exit", () => {
  const allocated = getHeapSpaceStatistics().reduce((sum, space) => sum + space.space_used_size, 0);
  appendFileSync(file, `${JSON.stringify({ statements, allocated })}\n`);
});
