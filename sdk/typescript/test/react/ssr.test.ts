// Pages that a server has rendered, in the oldest and in the newest version of React.

import "./dom.js";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Threadline } from "../../src/index.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import type * as Page from "./ssr-page.js";

useProxiedServer();

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0).reverse()) end();
  vi.restoreAllMocks();
});

/** The page with the React of a folder: as the server has it, and as the browser has it. */
async function pageWith(folder: string): Promise<(typeof Page)[]> {
  const path = (name: string) => fileURLToPath(new URL(`../../${folder}node_modules/${name}`, import.meta.url));
  if (!existsSync(path("react-dom"))) throw new Error("scripts/setup.sh test installs the packages of the tests");
  const outfile = path(".threadline/ssr-page.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("ssr-page.tsx", import.meta.url))],
    bundle: true,
    outfile,
    format: "esm",
    platform: "node",
    jsx: "automatic",
    packages: "external",
    logLevel: "error",
  });
  // Two modules, because a context belongs to one renderer.
  const load = (side: string) => import(/* @vite-ignore */ `${pathToFileURL(outfile)}?${side}`) as Promise<typeof Page>;
  return Promise.all([load("server"), load("browser")]);
}

const reads = () => proxy.requests.filter((request) => /\/(messages|state|events)\b/.test(request));

describe.each([
  ["18", "test/react18/"],
  ["19", ""],
])("React %s", (_, folder) => {
  let backend: typeof Page;
  let page: typeof Page;
  beforeAll(async () => {
    [backend, page] = (await pageWith(folder)) as [typeof Page, typeof Page];
  });

  function connect(side: typeof Page, url: string): Threadline {
    const client = side.connect({ url });
    ends.push(() => client.close());
    return client;
  }

  /** What a server sends to a page for a thread. */
  async function rendered(threadId: string): Promise<Page.Shown & { html: string }> {
    const client = connect(backend, server.url);
    const initial = await backend.dehydrate(client, [threadId]);
    const shown = { client, threadId, initial, rendered: backend.nothing() };
    const html = backend.html(shown);
    expect(await backend.streamed(shown, (error) => expect.unreachable(String(error)))).toBe(html);
    return { ...shown, html };
  }

  /** A page with the server's HTML. */
  function open(html: string, shown: Omit<Page.Shown, "client" | "rendered">) {
    proxy.requests.length = 0;
    const complaints = [vi.spyOn(console, "error"), vi.spyOn(console, "warn")];
    const container = document.createElement("div");
    container.innerHTML = html;
    const recovered: unknown[] = [];
    const rendered = page.nothing();
    const client = connect(page, proxy.url);
    const initial = shown.initial && (JSON.parse(JSON.stringify(shown.initial)) as typeof shown.initial);
    ends.push(page.hydrate(container, { ...shown, initial, client, rendered }, (error) => void recovered.push(error)));
    return {
      client,
      rendered,
      recovered,
      get html() {
        return container.innerHTML;
      },
      until: (what: string, test: (html: string) => boolean) =>
        until(
          what,
          () => test(container.innerHTML),
          () => container.innerHTML,
        ),
      expectNoWarning() {
        expect(recovered).toEqual([]);
        for (const complaint of complaints) expect(complaint.mock.calls).toEqual([]);
      },
    };
  }

  test("the HTML has the messages, and the page follows them without a second load", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 3, runId: "first" });
    const snapshot = [{ type: "STATE_SNAPSHOT", snapshot: { city: "Oslo" } }];
    await server.request("PUT", `/v1/threads/${threadId}/runs/${randomUUID()}`, { body: snapshot });
    await server.request("PATCH", `/v1/threads/${threadId}`, { body: { name: "Fjords" } });
    const { html, initial } = await rendered(threadId);
    expect(html).toContain('<h1>Fjords</h1><ol class="idle" title="Oslo"><li>wörd 0');
    expect(html).toContain("wörd 2");

    const shown = open(html, { threadId, initial });
    await until("the connection", () => shown.client.status.state === "live");
    await write(server, threadId, { deltas: 2, runId: "second" });
    await shown.until("the next run", (now) => now.includes("wörd 1 💬 of second"));
    expect(shown.html).toContain("wörd 2 💬 of first");
    expect(reads()).toEqual([]);
    expect(shown.rendered.loading).not.toContain(true);
    expect(new Set(shown.rendered.titles)).toEqual(new Set(["Fjords"]));
    // A change of the record that nobody has reported to this page.
    await server.request("PATCH", `/v1/threads/${threadId}`, { body: { name: "Glaciers" } });
    await shown.until("the new name", (now) => now.includes("Glaciers"));
    shown.expectNoWarning();
  });

  test("a run that is active continues in the middle of its text", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 1, runId: "before" });
    await write(server, threadId, { deltas: 40, runId: "long", batch: 1, stop: times(12) });
    const { html, initial } = await rendered(threadId);
    expect(html).toContain('class="running"');
    expect(html).toContain("wörd 9 💬 of long\n</li>");
    expect(html).not.toContain("wörd 10 ");
    // Joined deltas are a part of the page's size.
    expect(initial!.threads[0]!.match(/TEXT_MESSAGE_CONTENT/g)).toHaveLength(1);

    const shown = open(html, { threadId, initial });
    const more = [
      { type: "TEXT_MESSAGE_CONTENT", messageId: "long-text", delta: "and the end" },
      { type: "RUN_FINISHED", threadId, runId: "long" },
    ];
    await server.request("POST", `/v1/threads/${threadId}/runs/long/events?producerSeq=13`, { body: more });
    await shown.until("the end", (now) => now.includes('class="idle"'));
    expect(shown.html).toContain("wörd 9 💬 of long\nand the end</li>");
    const { messages } = await server.request<{ messages: { content: string }[] }>(
      "GET",
      `/v1/threads/${threadId}/messages`,
    );
    expect(shown.html.match(/<li>[^<]*/g)).toEqual(messages.map(({ content }) => `<li>${content}`));
    expect(reads()).toEqual([]);
    expect(shown.rendered.loading).not.toContain(true);
    shown.expectNoWarning();
  });

  test("a thread that has been replaced since is loaded", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 1, runId: "lost" });
    const { html, initial } = await rendered(threadId);
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await makeThread(server, threadId);
    await write(server, threadId, { deltas: 1, runId: "other" });
    const shown = open(html, { threadId, initial });
    await shown.until("the other log", (now) => now.includes("wörd 0 💬 of other") && now.includes('class="idle"'));
    expect(shown.html).not.toContain("of lost");
    expect(reads()).not.toEqual([]);
    shown.expectNoWarning();
  });

  test("a title does not render while 1,000 deltas stream", async () => {
    const threadId = await makeThread(server);
    const { html, initial } = await rendered(threadId);
    const shown = open(html, { threadId, initial });
    await until("the connection", () => shown.client.status.state === "live");
    const [before, lists] = [shown.rendered.titles.length, shown.rendered.loading.length];
    await write(server, threadId, { deltas: 1_000, batch: 50 });
    await shown.until("all of them", (now) => now.includes("wörd 999 ") && now.includes('class="idle"'));
    expect(shown.rendered.titles.length - before).toBe(0);
    expect(shown.rendered.loading.length - lists).toBeGreaterThan(1);
    shown.expectNoWarning();
  });

  test("a suspended component is in the HTML if its thread was read; if not, the page loads it", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 1, runId: "only" });
    const { client, initial } = await rendered(threadId);
    const shown = { threadId, suspends: true };
    const whole = backend.html({ client, initial, rendered: backend.nothing(), ...shown });
    expect(whole).toContain("wörd 0 💬 of only");
    const first = open(whole, { ...shown, initial });
    await until("the connection", () => first.client.status.state === "live");
    expect(reads()).toEqual([]);
    first.expectNoWarning();

    const errors: unknown[] = [];
    const fallback = await backend.streamed({ client, rendered: backend.nothing(), ...shown }, (error) =>
      errors.push(error),
    );
    expect(fallback).toContain("please wait");
    expect(String(errors[0])).toContain("`initial` does not have thread");
    const second = open(fallback, shown);
    await second.until("the message", (now) => now.includes("wörd 0 💬 of only"));
    expect(reads()).not.toEqual([]);
  });
});

/** Is true from the n-th call on. */
function times(count: number): () => boolean {
  let calls = 0;
  return () => (calls += 1) > count;
}
