/**
 * Loaded into the daemon of a soak: on SIGUSR2 all garbage is collected, and what is still in use is written to a file with
 * its pid. The file is there as soon as it may be asked.
 */
"use strict";
const { renameSync, writeFileSync } = require("node:fs");
const v8 = require("node:v8");
const vm = require("node:vm");

v8.setFlagsFromString("--expose-gc");
const collect = vm.runInNewContext("gc");
const file = `${process.env.SOAK_HEAPS}/${process.pid}`;
let asked = 0;
const tell = () => {
  const { heapUsed, external } = process.memoryUsage();
  writeFileSync(`${file}.new`, JSON.stringify({ asked, bytes: heapUsed + external }));
  renameSync(`${file}.new`, file);
};
process.on("SIGUSR2", () => {
  collect();
  asked += 1;
  tell();
});
tell();
