// Chromium with the console in it, which complains of nothing that its test does not expect.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { launch } from "../../../../sdk/typescript/test/harness/chromium.ts";

/** Other files of the console than those which the server has: the folder `dist`, built anew, for one. */
const BUILT = process.env.CONSOLE;
const here = fileURLToPath(new URL("../../..", import.meta.url));

// A page that the test gives has no address, and would not be let to one of this machine.
export const LAUNCH = launch(...(BUILT ? ["LocalNetworkAccessChecks"] : []));

/** What the browser says by itself of a server that is away. */
export const AWAY = /net::ERR_|WebSocket connection to/;
/** What the browser says by itself of a request that was refused with one of these. */
export const refused = (...statuses: number[]) => new RegExp(`responded with a status of (${statuses.join("|")})`);

export interface Visit extends BrowserContextOptions {
  /** Where in the console: a hash. */
  readonly at?: string;
  /** The time that the page has for good. */
  readonly now?: string;
  /** What the console of the browser may say in this test. */
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
      // Nothing that is shown may tell anybody else that it is.
      if (new URL(target).host !== new URL(url).host && !target.startsWith("blob:")) {
        this.#complaints.push(`asked somebody else: ${target}`);
      }
    };
    context.on("request", (request) => asked(request.url()));
    context.on("page", (page) => page.on("websocket", (socket) => asked(socket.url())));
    const page = await context.newPage();
    await page.goto(`${url}/${at}`);
    return page;
  }

  /** What was complained of so far, and was not expected. */
  get complaints(): readonly string[] {
    return this.#complaints.filter((complaint) => !this.#expected.some((expected) => expected.test(complaint)));
  }

  /** Closes all that is open. Throws if anything was complained of. */
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
      // The server is away, or the page.
      await route.abort("connectionrefused").catch(() => {});
    }
  });
}
