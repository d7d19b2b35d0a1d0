/** Agents that were stopped by somebody who died at it, with real processes in the place of their holders. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { agentLike } from "../../test/supervision.ts";
import type { AgentPhase } from "../core/supervision.ts";
import { attemptLike, runLike } from "../../test/contracts/store-samples.ts";
import { finishStart, finishStops, getAgent, stopAgent } from "./agents.ts";
