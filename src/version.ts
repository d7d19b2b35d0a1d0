/** Replaced by the build with the version in package.json. */
declare const REPRISE_VERSION: string | undefined;

export const VERSION: string = typeof REPRISE_VERSION === "undefined" ? "0.0.0-source" : REPRISE_VERSION;
