// `useStream` of `@langchain/react`, as published, in Chromium against `/langgraph`, and the page of `docs/langgraph-server.md`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { eventually, startAgent, stopAgent, waiting } from "./chats.mjs";

const base = process.env.THREADLINE_URL;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");
const options = { timeout: 120_000 };
const here = fileURLToPath(new URL(".", import.meta.url));
const scripts = new Map();
let browser;

const site = createServer(({ url }, response) => {
  const script = scripts.get(url);
  if (script) return void response.setHeader("Content-Type", "text/javascript").end(script);
  const { pathname } = new URL(url, "http://site");
  response.setHeader("Content-Type", "text/html");
  response.end(`<!doctype html><title>chat</title><body></body><script type="module" src="${pathname}.js"></script>`);
});

/** Bundles a page; `from` is a file, or a text with its loader. */
async function bundle(name, from) {
  const { outputFiles } = await build({
    ...from,
    bundle: true,
    format: "esm",
    jsx: "automatic",
    platform: "browser",
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "silent",
    write: false,
  });
  scripts.set(`/${name}.js`, outputFiles[0].contents);
}

/** The code of the page in the documentation, for this server. */
async function documented() {
  const text = await readFile(new URL("../../../docs/langgraph-server.md", import.meta.url), "utf8");
  const [, code] = /```tsx\n([\s\S]+?)```/.exec(text);
  const address = "http://localhost:7420";
  assert.ok(code.includes(address));
  return `${code.replace(address, base)}
    import { createRoot } from "react-dom/client";
    createRoot(document.body.appendChild(document.createElement("div"))).render(<Chat />);`;
}

before(async () => {
  const contents = await documented();
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  [browser] = await Promise.all([
    chromium.launch({ executablePath, args }),
    startAgent(base),
    bundle("chat", { entryPoints: [`${here}langgraph-page.jsx`] }),
    bundle("documented", { stdin: { contents, loader: "tsx", resolveDir: here } }),
    once(site.listen(0, "127.0.0.1"), "listening"),
  ]);
});
after(async () => {
  await browser?.close();
  site.close();
  stopAgent();
});

/** Opens a page, and fails for each error that it did not catch. */
async function open(name, query = {}) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => assert.fail(error));
  page.setDefaultTimeout(30_000);
  await page.goto(`http://127.0.0.1:${site.address().port}/${name}?${new URLSearchParams(query)}`);
  return page;
}

async function shows(page, ...messages) {
  const items = page.locator("li");
  const same = async () => JSON.stringify(await items.allTextContents()) === JSON.stringify(messages);
  await eventually("all is shown", same).catch(() => {});
  assert.deepEqual(await items.allTextContents(), messages);
}

async function say(page, text) {
  await page.locator("main[data-loading=false]").waitFor();
  await page.locator("input").fill(text);
  await page.locator("input").press("Enter");
}

for (const transport of ["sse", "websocket"]) {
  test(`a chat over ${transport}: tokens, a reload, a tool, and an interrupt`, options, async () => {
    const word = randomUUID();
    const page = await open("chat", { server: `${base}/langgraph`, transport });
    await say(page, `slow ${word}`);
    await shows(page, `human: slow ${word}`, "ai: half ");
    await page.reload();
    await shows(page, `human: slow ${word}`, "ai: half ");
    await page.locator("main[data-loading=true]").waitFor();
    waiting.get(word)();
    const first = [`human: slow ${word}`, "ai: half whole"];
    await shows(page, ...first);
    await say(page, "search parcels");
    const second = ["human: search parcels", "ai: ", "ai: ", 'tool: {"hits":[1,2]}', "ai: Two hits."];
    await shows(page, ...first, ...second);
    assert.deepEqual(await page.locator("p").allTextContents(), ["search finished"]);
    await say(page, "mail");
    await page.getByRole("button", { name: "Send?" }).waitFor();
    // The question is still open in a page that loads later.
    await page.reload();
    await page.getByRole("button", { name: "Send?" }).click();
    await shows(page, ...first, ...second, "human: mail", "ai: ", 'tool: {"sent":true}', "ai: Sent.");
    await page.locator("main[data-loading=false]").waitFor();
    assert.equal(await page.getByRole("button").count(), 0);
    assert.deepEqual(await page.getByRole("alert").allTextContents(), []);
    await page.close();
  });
}

test("the page of the documentation", options, async () => {
  const page = await open("documented");
  const button = page.getByRole("button");
  assert.equal(await button.textContent(), "0");
  await button.click();
  await eventually("the answer is there", async () => (await button.textContent()) === "2");
  await page.close();
});
