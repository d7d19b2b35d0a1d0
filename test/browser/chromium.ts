/**
 * A real Chromium from the package registry (`test/browser/package.json`, installed by `npm run test:web`). Types only
 * what the tests use, so that the checks of the repository need no browser.
 */
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

export interface Locator {
  click(): Promise<void>;
  fill(text: string): Promise<void>;
  press(key: string): Promise<void>;
  waitFor(): Promise<void>;
  textContent(): Promise<string | null>;
  count(): Promise<number>;
  first(): Locator;
  selectOption(value: string): Promise<unknown>;
  isEnabled(): Promise<boolean>;
}

export interface Tab {
  goto(url: string): Promise<{ status(): number } | null>;
  reload(): Promise<unknown>;
  addInitScript(script: { content: string }): Promise<unknown>;
  url(): string;
  title(): Promise<string>;
  screenshot(options: { path: string }): Promise<unknown>;
  evaluate<T>(run: (() => T | Promise<T>) | string): Promise<T>;
  waitForFunction(run: () => unknown): Promise<unknown>;
  getByRole(role: string, options?: { name?: string | RegExp; exact?: boolean }): Locator;
  getByText(text: string | RegExp): Locator;
  getByLabel(text: string | RegExp, options?: { exact?: boolean }): Locator;
  locator(selector: string): Locator;
  on(event: string, listener: (what: any) => void): void;
  close(): Promise<void>;
  keyboard: { press(key: string): Promise<void>; type(text: string): Promise<void> };
}

export interface Context {
  newPage(): Promise<Tab>;
  cookies(): Promise<readonly { name: string; value: string }[]>;
  close(): Promise<void>;
  setDefaultTimeout(ms: number): void;
}

export interface Browser {
  newContext(options?: object): Promise<Context>;
  close(): Promise<void>;
}

const FOLDER = resolve("test/browser");
const require = createRequire(join(FOLDER, "package.json"));
/** Long enough for a loaded machine. */
const PATIENCE_MS = 30_000;

export async function openChromium(...args: string[]): Promise<Browser> {
  // The package unpacks its program there, and runs whatever stands there.
  const place = join(FOLDER, ".cache");
  mkdirSync(place, { recursive: true, mode: 0o700 });
  process.env["TMPDIR"] = place;
  const { chromium } = require("playwright-core") as {
    chromium: { launch(options: object): Promise<Browser> };
  };
  const found = (await import(require.resolve("@sparticuz/chromium"))) as {
    default: { executablePath(): Promise<string> };
  };
  const executablePath = await found.default.executablePath();
  // Not the package's own arguments, which switch off the web's security. Root has no sandbox.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath, args: [...sandbox, ...args] });
}

/** Everything that must not happen in the page: errors, violations of the policy, failed requests. */
export function complaintsOf(tab: Tab): string[] {
  const complaints: string[] = [];
  tab.on("console", (message: { type(): string; text(): string }) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  tab.on("pageerror", (error: Error) => complaints.push(error.message));
  return complaints;
}

export async function tabIn(context: Context): Promise<Tab> {
  context.setDefaultTimeout(PATIENCE_MS);
  return context.newPage();
}

/** The violations that axe finds, each with the elements. */
export async function violationsIn(tab: Tab): Promise<readonly string[]> {
  const { AxeBuilder } = require("@axe-core/playwright") as {
    AxeBuilder: new (options: { page: Tab }) => {
      analyze(): Promise<{
        violations: readonly { id: string; nodes: readonly { target: unknown; failureSummary?: string }[] }[];
      }>;
    };
  };
  const { violations } = await new AxeBuilder({ page: tab }).analyze();
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${JSON.stringify(target)} ${failureSummary ?? ""}`),
  );
}
