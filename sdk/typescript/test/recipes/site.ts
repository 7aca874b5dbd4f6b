// A site with one script, in Chromium, for the recipes that are pages.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server as Listener } from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import { launch } from "../harness/chromium.js";

/** Answers requests below /api. */
export type Backend = (request: Request) => Promise<Response>;

export class Site {
  readonly #listener: Listener;
  readonly #browser: Browser;
  readonly #devices: BrowserContext[] = [];
  /** The script of the page. */
  script: Uint8Array | string = "";
  backend: Backend = async () => new Response(null, { status: 404 });

  static async start(): Promise<Site> {
    const site = new Site(await chromium.launch(launch()));
    await once(site.#listener.listen(0, "127.0.0.1"), "listening");
    return site;
  }

  private constructor(browser: Browser) {
    this.#browser = browser;
    this.#listener = createServer(async (request, response) => {
      if (request.url === "/page.js") {
        return void response.setHeader("Content-Type", "text/javascript").end(this.script);
      }
      if (!request.url?.startsWith("/api/")) {
        response.setHeader("Content-Type", "text/html");
        return void response.end(
          '<!doctype html><title>a recipe</title><link rel="icon" href="data:,"><body></body><script type="module" src="/page.js"></script>',
        );
      }
      const answer = await this.backend(await standard(this.url, request));
      response.statusCode = answer.status;
      for (const [name, value] of answer.headers) if (name !== "set-cookie") response.setHeader(name, value);
      response.setHeader("Set-Cookie", answer.headers.getSetCookie());
      response.end(Buffer.from(await answer.arrayBuffer()));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** A page of a new device. An error of the page fails the test, and so does one that it logs. */
  async open(path = "/"): Promise<Page> {
    const device = await this.#browser.newContext();
    this.#devices.push(device);
    device.on("weberror", (error) => expect.unreachable(String(error.error())));
    const page = await device.newPage();
    page.on("console", (message) => {
      // Chromium logs each response that is an error: a thread that does not exist yet, a refusal.
      const isAnswer = message.text().startsWith("Failed to load resource");
      if (!isAnswer) expect(["error", "warning"], message.text()).not.toContain(message.type());
    });
    await page.goto(this.url + path);
    return page;
  }

  /** Closes all devices. */
  async leave(): Promise<void> {
    for (const device of this.#devices.splice(0)) await device.close();
  }

  async end(): Promise<void> {
    await this.#browser.close();
    this.#listener.close();
    this.#listener.closeAllConnections();
  }
}

/** A request of Node as the web has it. */
async function standard(site: string, request: IncomingMessage): Promise<Request> {
  const { url = "", method = "GET", headers } = request;
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const list = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((each): [string, string] => [name, each]),
  );
  return new Request(site + url, {
    method,
    headers: list,
    ...(pieces.length > 0 && { body: Buffer.concat(pieces) }),
  });
}
