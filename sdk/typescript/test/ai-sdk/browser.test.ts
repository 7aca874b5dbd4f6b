// `useChat` of React, as published for both versions of the AI SDK, in Chromium with the transport.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server as Site } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { launch } from "../harness/chromium.js";
import { Server } from "../harness/server.js";
import { ScriptedAgent } from "./agent.js";

let server: Server;
let agent: ScriptedAgent;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), chromium.launch(launch())]);
  agent = await ScriptedAgent.start(server);
});
afterAll(async () => {
  await browser?.close();
  agent?.end();
  await server?.end();
});

const VERSIONS: readonly { readonly version: string; readonly alias: Record<string, string> }[] = [
  { version: "6", alias: { ai: "ai6", "@ai-sdk/react": "ai6-react" } },
  { version: "7", alias: {} },
];

describe.each(VERSIONS)("useChat of ai $version", ({ alias }) => {
  let site: Site;
  let context: BrowserContext;
  beforeAll(async () => {
    const entry = fileURLToPath(new URL("page.tsx", import.meta.url));
    const { outputFiles, metafile } = await build({
      entryPoints: [entry],
      bundle: true,
      format: "esm",
      jsx: "automatic",
      platform: "browser",
      alias,
      define: { "process.env.NODE_ENV": '"development"' },
      metafile: true,
      write: false,
    });
    // The page has this version alone.
    const versions = new Set(
      Object.keys(metafile.inputs).flatMap((path) => /node_modules\/(ai6?)\//.exec(path)?.[1] ?? []),
    );
    expect([...versions]).toEqual([alias["ai"] ?? "ai"]);
    const script = outputFiles[0]!.contents;
    site = createServer(({ url }, response) => {
      if (url === "/page.js") return void response.setHeader("Content-Type", "text/javascript").end(script);
      response.setHeader("Content-Type", "text/html");
      response.end('<!doctype html><title>chat</title><body></body><script type="module" src="/page.js"></script>');
    });
    await once(site.listen(0, "127.0.0.1"), "listening");
  });
  afterAll(() => void site?.close());
  afterEach(() => context?.close());

  /** Opens pages with one chat. */
  async function open(count: number): Promise<Page[]> {
    context = await browser.newContext();
    context.on("weberror", (error) => expect.unreachable(String(error.error())));
    const { port } = site.address() as AddressInfo;
    const address = `http://127.0.0.1:${port}/?server=${encodeURIComponent(server.url)}&chat=${randomUUID()}`;
    const pages: Page[] = [];
    for (let at = 0; at < count; at += 1) {
      const page = await context.newPage();
      page.on("console", (message) => {
        // Chromium logs every response that is an error: a chat that does not exist yet is a 404.
        const isAnswer = message.text().startsWith("Failed to load resource");
        if (!isAnswer) expect(["error", "warning"], message.text()).not.toContain(message.type());
      });
      await page.goto(address);
      await page.locator("main").waitFor();
      pages.push(page);
    }
    return pages;
  }

  async function say(page: Page, text: string, button: "Send" | "Edit" = "Send"): Promise<void> {
    await page.getByRole("textbox").fill(text);
    await page.getByRole("button", { name: button }).click();
  }

  /** Waits until a page shows exactly these messages. */
  const shows = (page: Page, ...messages: string[]) =>
    expect.poll(() => page.locator("li").allTextContents()).toEqual(messages);

  const settles = (page: Page, status = "ready") => page.locator(`main[data-status=${status}]`).waitFor();

  test("an answer goes on over a reload and in a second tab", async () => {
    const [page, tab] = (await open(2)) as [Page, Page];
    const word = randomUUID();
    await say(page, `slow ${word}`);
    await shows(page, `user: slow ${word}`, "assistant: half ");
    await page.reload();
    // A tab that was open has to load the chat, too: a stream has one message alone.
    await tab.reload();
    for (const one of [page, tab]) {
      await shows(one, `user: slow ${word}`, "assistant: half ");
      await settles(one, "streaming");
    }
    await agent.goOn(word);
    for (const one of [page, tab]) {
      await shows(one, `user: slow ${word}`, "assistant: half whole");
      await settles(one);
    }
    await say(tab, "say more");
    await shows(tab, `user: slow ${word}`, "assistant: half whole", "user: say more", "assistant: more");
    expect(await page.getByRole("alert").count()).toBe(0);
  });

  test("a stop in one tab ends the answer in both, and the chat goes on", async () => {
    const [page, tab] = (await open(2)) as [Page, Page];
    const word = randomUUID();
    await say(page, `slow ${word}`);
    await shows(page, `user: slow ${word}`, "assistant: half ");
    await tab.reload();
    await settles(tab, "streaming");
    await tab.getByRole("button", { name: "Stop" }).click();
    for (const one of [page, tab]) {
      await settles(one);
      await shows(one, `user: slow ${word}`, "assistant: half ");
    }
    await say(page, "say fine");
    await shows(page, `user: slow ${word}`, "assistant: half ", "user: say fine", "assistant: fine");
  });

  test("an answer is made again, and a message edited", async () => {
    const [page] = (await open(1)) as [Page];
    await say(page, "say one");
    await shows(page, "user: say one", "assistant: one");
    await settles(page);
    const runs = () => agent.inputs.filter(({ messages }) => messages.at(-1)!.content === "say one").length;
    const before = runs();
    await page.getByRole("button", { name: "Again" }).click();
    await expect.poll(runs).toBe(before + 1);
    await shows(page, "user: say one", "assistant: one");
    await settles(page);
    await say(page, "say two", "Edit");
    await shows(page, "user: say two", "assistant: two");
    await settles(page);
    await page.reload();
    await shows(page, "user: say two", "assistant: two");
    // A page without an active run shows no error.
    await page.waitForLoadState("networkidle");
    await settles(page);
    expect(await page.getByRole("alert").allTextContents()).toEqual([]);
  });

  test("a refusal is shown by its name", async () => {
    const [page, tab] = (await open(2)) as [Page, Page];
    const word = randomUUID();
    await say(page, `slow ${word}`);
    await shows(page, `user: slow ${word}`, "assistant: half ");
    await say(tab, "say more");
    await expect(tab.getByRole("alert").textContent()).resolves.toMatch(/^ProblemError: .*run-active/);
    await agent.goOn(word);
    await settles(page);
  });
});
