// Chromium with the console in it; errors that a test does not expect fail it.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { launch } from "../../../../sdk/typescript/test/harness/chromium.ts";

/** Files that replace the server's files of the console, for example a newly built `dist`. */
const BUILT = process.env.CONSOLE;
const here = fileURLToPath(new URL("../../..", import.meta.url));

// A page from a test has no origin, and would not be allowed to connect to an address of this machine.
export const LAUNCH = launch(...(BUILT ? ["LocalNetworkAccessChecks"] : []));

/** The browser's own messages about an unreachable server. */
export const AWAY = /net::ERR_|WebSocket connection to/;
/** The browser's own messages about a request that was refused with one of these statuses. */
export const refused = (...statuses: number[]) => new RegExp(`responded with a status of (${statuses.join("|")})`);

export interface Visit extends BrowserContextOptions {
  /** The route in the console: a hash. */
  readonly at?: string;
  /** A fixed time for the page. */
  readonly now?: string;
  /** Messages that the browser's console may have in this test. */
  readonly expects?: readonly RegExp[];
}

export class Chromium {
  readonly #browser: Browser;
  readonly #contexts = new Set<BrowserContext>();
  readonly #expected: RegExp[] = [];
  #complaints: string[] = [];

  static async start(): Promise<Chromium> {
    return new Chromium(await chromium.launch(LAUNCH));
  }

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** The console of a server, on a device of its own: its pages share nothing with those of others. */
  async open({ url }: { readonly url: string }, { at = "", now, expects = [], ...options }: Visit = {}): Promise<Page> {
    this.#expected.push(...expects);
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    this.#contexts.add(context);
    context.setDefaultTimeout(30_000);
    if (BUILT) await serveBuilt(context, BUILT);
    if (now !== undefined) await context.clock.setFixedTime(now);
    context.on("weberror", (error) => this.#complaints.push(`thrown: ${error.error().stack}`));
    context.on("dialog", (dialog) => {
      this.#complaints.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    context.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") this.#complaints.push(message.text());
    });
    const asked = (target: string) => {
      // No content may send a request to another host.
      if (new URL(target).host !== new URL(url).host && !target.startsWith("blob:")) {
        this.#complaints.push(`requested another host: ${target}`);
      }
    };
    context.on("request", (request) => asked(request.url()));
    context.on("page", (page) => page.on("websocket", (socket) => asked(socket.url())));
    const page = await context.newPage();
    await page.goto(`${url}/${at}`);
    return page;
  }

  /** The unexpected errors so far. */
  get complaints(): readonly string[] {
    return this.#complaints.filter((complaint) => !this.#expected.some((expected) => expected.test(complaint)));
  }

  /** Closes all pages. Throws if there was an unexpected error. */
  async leave(): Promise<void> {
    for (const context of this.#contexts) await context.close();
    this.#contexts.clear();
    const { complaints } = this;
    this.#complaints = [];
    this.#expected.length = 0;
    if (complaints.length > 0) throw new Error(`the page complains:\n${complaints.join("\n")}`);
  }

  async end(): Promise<void> {
    await this.#browser.close();
  }
}

/** With the headers that the server sends with its own: what its policy forbids is forbidden here, too. */
async function serveBuilt(context: BrowserContext, folder: string): Promise<void> {
  await context.route(/\/(app\.js|app\.css)?(\?.*)?$/, async (route) => {
    const { pathname } = new URL(route.request().url());
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    try {
      const response = await route.fetch();
      await route.fulfill({ response, body: await readFile(join(here, folder, name)) });
    } catch {
      // The server is unreachable, or the page is closed.
      await route.abort("connectionrefused").catch(() => {});
    }
  });
}
