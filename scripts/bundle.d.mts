import type { BuildOptions } from "esbuild";

export const common: BuildOptions;
