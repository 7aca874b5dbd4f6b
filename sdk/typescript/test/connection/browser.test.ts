// The same tests in headless Chromium: with its WebSocket, its fetch, its limit of six requests to one server, and its
// offline state.

import { once } from "node:events";
import { createServer, type Server as PageServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type * as Package from "../../src/index.js";
import { launch } from "../harness/chromium.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { log, type Logged, makeThread, write } from "../harness/writer.js";
import { expectExactly, TRANSPORTS } from "./reader.js";

/** Globals of the page. */
declare global {
  var threadline: typeof Package;
  var client: Package.Threadline;
  var readers: { events: Logged[]; types: string[]; error: string | undefined }[];
  var states: string[];
}

let server: Server;
let proxy: Proxy;
let site: PageServer;
let browser: Browser;
let bundle: string;
let context: BrowserContext;
beforeAll(async () => {
  server = await Server.start();
  proxy = await Proxy.start(server);
  const entry = fileURLToPath(new URL("../../src/index.ts", import.meta.url));
  const contents = `import * as threadline from ${JSON.stringify(entry)}; globalThis.threadline = threadline;`;
  // The bundle for browsers: code that needs Node would fail here.
  const stdin = { contents, resolveDir: "." };
  const built = await build({ stdin, bundle: true, minify: true, format: "iife", platform: "browser", write: false });
  bundle = built.outputFiles[0]!.text;
  site = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<title>page</title>"));
  await once(site.listen(0, "127.0.0.1"), "listening");
  browser = await chromium.launch(launch());
});
afterAll(async () => {
  await browser?.close();
  site?.close();
  proxy?.end();
  await server?.end();
});
afterEach(() => context?.close());

/** A page that follows these threads. */
async function open(threads: readonly string[], transports?: readonly Package.TransportName[]): Promise<Page> {
  context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  await page.evaluate(bundle);
  await page.evaluate(
    ({ url, threads, transports }) => {
      const { Threadline } = globalThis.threadline;
      const client = new Threadline({ url, ...(transports && { transports }) });
      globalThis.client = client;
      globalThis.states = [];
      client.onStatus(({ state }) => globalThis.states.push(state));
      globalThis.readers = threads.map((threadId) => {
        const reader: (typeof globalThis.readers)[number] = { events: [], types: [], error: undefined };
        client.thread(threadId).follow({
          onItem: (item) => {
            if (item.type !== "events") return void reader.types.push(item.type);
            for (const { seq, runId, at, events } of item.batches) {
              events.forEach((event, index) => reader.events.push({ seq: seq + index, runId, at, event }));
            }
          },
          onError: (error) => (reader.error = error.message),
        });
        return reader;
      });
    },
    { url: proxy.url, threads, transports },
  );
  return page;
}

const caughtUp = (page: Page) =>
  until(
    "all live",
    () => page.evaluate(() => globalThis.readers.every(({ types }) => types.includes("caughtUp"))),
    () => proxy.requests.slice(-5),
  );

/** Waits until every reader has the log of its thread, with each event once and in order. */
async function expectAll(page: Page, threads: readonly string[]): Promise<void> {
  for (const [index, threadId] of threads.entries()) {
    const all = await log(server, threadId);
    let counts: unknown;
    const whole = async () => {
      const reader = await page.evaluate((index) => {
        const { events, error } = globalThis.readers[index]!;
        return { count: events.length, error, status: globalThis.client.status };
      }, index);
      counts = reader;
      return reader.count >= all.length;
    };
    await until(`all ${all.length} events`, whole, () => counts);
    expectExactly(await page.evaluate((index) => globalThis.readers[index]!.events, index), all);
  }
}

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("cuts, a kill and a drain in the middle of runs", async () => {
    const threads = await Promise.all([1, 2, 3].map(() => makeThread(server)));
    const page = await open(threads, [transport]);
    await caughtUp(page);
    const writing = Promise.all(
      threads.map((threadId) => write(server, threadId, { deltas: 100, batch: 3, paceMs: 20 })),
    );
    const grown = (count: number) =>
      until("more events", () => page.evaluate((count) => globalThis.readers[0]!.events.length > count, count));
    await grown(5);
    proxy.cut();
    await grown(20);
    await server.restart();
    await grown(45);
    await server.drain();
    await server.restart();
    await grown(60);
    proxy.cut();
    await writing;
    await expectAll(page, threads);
    // The last cut may have come after the last event.
    const status = () => page.evaluate(() => globalThis.client.status);
    await until("live", async () => (await status()).state === "live");
    expect(await status()).toEqual({ state: "live", transport });
  });

  test("offline and online again", async () => {
    const threads = [await makeThread(server)];
    await write(server, threads[0]!);
    const page = await open(threads, [transport]);
    await caughtUp(page);
    await context.setOffline(true);
    await until("offline", () => page.evaluate(() => globalThis.client.status.state === "offline"));
    await write(server, threads[0]!);
    await context.setOffline(false);
    await expectAll(page, threads);
  });
});

test("a network without WebSockets: any number of threads, without delaying other requests", async () => {
  const threads = await Promise.all(Array.from({ length: 7 }, () => makeThread(server)));
  for (const threadId of threads) await write(server, threadId, { deltas: 2 });
  proxy.upgrade = "refuse";
  const page = await open(threads);
  await caughtUp(page);
  const took = await page.evaluate(async () => {
    const before = performance.now();
    for (let i = 0; i < 20; i += 1) await globalThis.client.threads.list();
    return performance.now() - before;
  });
  // Waiting for the end of a stream's turn would take each request 2 s.
  expect(took).toBeLessThan(10_000);
  await Promise.all(threads.map((threadId) => write(server, threadId, { deltas: 3 })));
  await expectAll(page, threads);
  expect(await page.evaluate(() => globalThis.client.status)).toEqual({ state: "live", transport: "sse" });
  proxy.upgrade = "pass";
});

test("after closing and navigating away no connection stays open", async () => {
  const threads = [await makeThread(server)];
  const page = await open(threads);
  await caughtUp(page);
  await page.evaluate(() => globalThis.client.close());
  await until("no socket", () => proxy.open("/v1/socket") === 0);
  expect(await page.evaluate(() => globalThis.states)).toEqual(["connecting", "live", "closed"]);
});
