// The recipes of chats in Chromium: the optimistic one, and that of assistant-ui with its package as published.

import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ScriptedAgent } from "../ai-sdk/agent.js";
import { recipe, scriptOf } from "../harness/recipes.js";
import { Server } from "../harness/server.js";
import { Site } from "./site.js";

let server: Server;
let agent: ScriptedAgent;
let site: Site;
beforeAll(async () => {
  [server, site] = await Promise.all([Server.start(), Site.start()]);
  agent = await ScriptedAgent.start(server);
});
afterEach(() => site?.leave());
afterAll(async () => {
  await site?.end();
  agent?.end();
  await server?.end();
});

const OPTIMISTIC = recipe("A chat with optimistic messages");

/** The script of a page, with this server and the scripted agent. */
function script(files: ReadonlyMap<string, string>): Promise<Uint8Array> {
  const here = [...files].map(([name, code]) => {
    const local = code
      .replaceAll("http://localhost:7420", server.url)
      .replaceAll('agentId: "demo"', 'agentId: "scripted"');
    return [name, local] as const;
  });
  return scriptOf(new Map(here), 'import "./main";');
}

const field = (page: Page, name = "Message") => page.getByRole("textbox", { name });
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const chatOf = (page: Page) => new URL(page.url()).hash.slice(1);

async function say(page: Page, text: string, within = "Message"): Promise<void> {
  await field(page, within).fill(text);
  await field(page, within).press("Enter");
}

describe("the optimistic chat", () => {
  beforeAll(async () => {
    site.script = await script(OPTIMISTIC);
  });

  const texts = (page: Page) => page.locator("li > p:first-child").allTextContents();
  const shows = (page: Page, ...expected: string[]) => expect.poll(() => texts(page)).toEqual(expected);

  test("a message is shown before it is sent, says so if it is refused, and is sent again once", async () => {
    const page = await site.open();
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    await page.route("**/v1/threads/*/runs", async (route) => {
      await held;
      await route.continue();
    });
    await say(page, "say hello");
    await shows(page, "say hello");
    expect(await page.locator("li").getAttribute("aria-busy")).toBe("true");
    goOn();
    await shows(page, "say hello", "hello");
    expect(await page.locator("li[aria-busy=true]").count()).toBe(0);

    const chat = chatOf(page);
    await expect.poll(() => button(page, "Stop").count()).toBe(0);
    await server.request("POST", `/v1/threads/${chat}/runs`, { body: { runId: "other", leaseSeconds: 60 } });
    await say(page, "say more");
    await expect.poll(() => page.getByRole("alert").textContent()).toContain("run-active");
    await shows(page, "say hello", "hello", "say more");
    await server.request("POST", `/v1/threads/${chat}/runs/other/finish`);
    await button(page, "Send again").click();
    await shows(page, "say hello", "hello", "say more", "more");
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(agent.of(chat).map(({ messages }) => messages.at(-1)!.content)).toEqual(["say hello", "say more"]);

    await server.request("POST", `/v1/threads/${chat}/runs`, { body: { runId: "third", leaseSeconds: 60 } });
    await say(page, "say nothing");
    await button(page, "Discard").click();
    await shows(page, "say hello", "hello", "say more", "more");
  });

  test("an edited message and another answer begin branches, which stay in the address and can be chosen", async () => {
    const page = await site.open();
    await say(page, "say one");
    await shows(page, "say one", "one");
    const first = chatOf(page);
    await button(page, "Edit").click();
    await say(page, "say two", "Instead");
    await shows(page, "say two", "two");
    const second = chatOf(page);
    expect(second).not.toBe(first);
    await page.reload();
    await shows(page, "say two", "two");
    await page.getByText("2/2").waitFor();
    await button(page, "‹").click();
    await shows(page, "say one", "one");
    await expect.poll(() => chatOf(page)).toBe(first);
    await page.getByText("1/2").waitFor();

    await button(page, "Answer again").click();
    await expect.poll(() => chatOf(page)).not.toBe(first);
    const third = chatOf(page);
    await shows(page, "say one", "one");
    await expect.poll(() => agent.of(third).length).toBe(1);
    const { branches } = await server.request<{ branches: unknown[] }>("GET", `/v1/threads/${first}/branches`);
    expect(branches).toHaveLength(3);
  });

  test("an answer goes on after a reload, and is stopped", async () => {
    const page = await site.open();
    const word = randomUUID();
    await say(page, `slow ${word}`);
    await shows(page, `slow ${word}`, "half ");
    await page.reload();
    await shows(page, `slow ${word}`, "half ");
    await button(page, "Stop").click();
    await expect.poll(() => button(page, "Stop").count()).toBe(0);
    await say(page, "say fine");
    await shows(page, `slow ${word}`, "half ", "say fine", "fine");
  });
});

describe("assistant-ui", () => {
  /** What is there of an answer that is still under way, as assistant-ui shows it. */
  const GROWING = "half  ●";
  beforeAll(async () => {
    const main = OPTIMISTIC.get("main.tsx")!.replace(
      'import { Chat } from "./Chat"',
      'import { Assistant as Chat } from "./Assistant"',
    );
    site.script = await script(new Map([...recipe("assistant-ui"), ["main.tsx", main]]));
  });

  const texts = (page: Page) =>
    page
      .locator(".user, .assistant")
      .evaluateAll((messages) =>
        messages.map((message) => [...message.querySelectorAll("p")].map((part) => part.textContent).join("|")),
      );
  const shows = (page: Page, ...expected: string[]) => expect.poll(() => texts(page)).toEqual(expected);

  test("a message is sent, its answer streams, comes back after a reload, and is stopped in another tab", async () => {
    const page = await site.open();
    const word = randomUUID();
    await say(page, `slow ${word}`);
    await shows(page, `slow ${word}`, GROWING);
    await page.reload();
    await shows(page, `slow ${word}`, GROWING);
    await button(page, "Stop").waitFor();
    await agent.goOn(word);
    await shows(page, `slow ${word}`, "half whole");
    await button(page, "Send").waitFor();

    const again = randomUUID();
    await say(page, `slow ${again}`);
    await shows(page, `slow ${word}`, "half whole", `slow ${again}`, GROWING);
    const tab = await site.open(`/#${chatOf(page)}`);
    await shows(tab, `slow ${word}`, "half whole", `slow ${again}`, GROWING);
    await button(tab, "Stop").click();
    for (const one of [page, tab]) {
      await button(one, "Send").waitFor();
      await shows(one, `slow ${word}`, "half whole", `slow ${again}`, "half ");
    }
    const { runs } = await server.request<{ runs: { status: string }[] }>("GET", `/v1/threads/${chatOf(page)}/runs`);
    expect(runs.map(({ status }) => status).sort()).toEqual(["finished", "stopped"]);
    await say(page, "say fine");
    for (const one of [page, tab]) {
      await shows(one, `slow ${word}`, "half whole", `slow ${again}`, "half ", "say fine", "fine");
    }
  });

  test("a message is edited, and its answer made again", async () => {
    const page = await site.open();
    await say(page, "say one");
    await shows(page, "say one", "one");
    await button(page, "Send").waitFor();
    const first = chatOf(page);
    await button(page, "Edit").click();
    await field(page, "Instead").fill("say two");
    await button(page, "Replace").click();
    await shows(page, "say two", "two");
    const second = chatOf(page);
    expect(second).not.toBe(first);
    await button(page, "Send").waitFor();
    await button(page, "Answer again").click();
    await expect.poll(() => chatOf(page)).not.toBe(second);
    await shows(page, "say two", "two");
    await expect.poll(() => agent.of(chatOf(page)).length).toBe(1);
    const { messages } = await server.request<{ messages: { content: string }[] }>(
      "GET",
      `/v1/threads/${first}/messages`,
    );
    expect(messages.map(({ content }) => content)).toEqual(["say one", "one"]);
  });
});
