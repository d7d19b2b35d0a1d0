/** What Codex may not do without being allowed to, asked and answered in a review. */
import type { World } from "./interpret.ts";

export const APPROVAL_ACTS: Readonly<Record<string, (world: World) => Promise<void>>> = {};
