// examples/all-clients: one thread, in every client at once, each as published.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ScriptedAgent } from "../ai-sdk/agent.js";
import { launch } from "../harness/chromium.js";
import { Program } from "../harness/program.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";

const EXAMPLE = fileURLToPath(new URL("../../../../examples/all-clients/", import.meta.url));
/** The page, two names of the server, a browser and its programs share two cores with other tests. */
const PATIENCE_MS = 90_000;

let server: Server;
let agent: ScriptedAgent;
let program: Program;
let browser: Browser;
let page: Page;
let console: Page;
let threadId: string;

beforeAll(async () => {
  if (!existsSync(`${EXAMPLE}node_modules`)) throw new Error("scripts/setup.sh test installs the example's packages");
  [server, browser] = await Promise.all([Server.start(), chromium.launch(launch())]);
  agent = await ScriptedAgent.start(server);
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, PORT: "0", THREADLINE_URL: server.url, AGENT: "scripted" };
  let address: string;
  [program, address] = await Program.start("the example", process.execPath, [`${EXAMPLE}start.mjs`], env);
  const context = await browser.newContext({ viewport: { width: 1500, height: 1000 } });
  context.setDefaultTimeout(PATIENCE_MS);
  [page, console] = [await context.newPage(), await context.newPage()];
  await page.goto(address);
  threadId = await until("a thread", () => new URL(page.url()).hash.slice(1));
  await page.getByTestId("copilot-chat-textarea").waitFor();
  // The console renders only the messages that are in view.
  await console.setViewportSize({ width: 1000, height: 4000 });
  await console.goto(`${server.url}/#/threads/${threadId}`);
}, 6 * PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  await program?.end();
  agent?.end();
  await server?.end();
});

/** Messages as a person reads them: `user: text`. */
type Shown = string[];

const panel = (name: string) => page.getByRole("region", { name, exact: true });
const inPanel = (name: string) => ({
  shown: (): Promise<Shown> =>
    panel(name)
      .locator("li")
      .evaluateAll((found) => found.map(({ className, textContent }) => `${className}: ${textContent?.trim()}`)),
  say: async (text: string) => {
    const field = panel(name).getByRole("textbox");
    await field.fill(text);
    await field.press("Enter");
  },
});

/** What each client shows, and how a person writes with it. */
const clients = {
  CopilotKit: {
    shown: (): Promise<Shown> =>
      panel("CopilotKit")
        .locator('[data-testid="copilot-user-message"], [data-testid="copilot-assistant-message"]')
        .evaluateAll((found) =>
          found
            .map((each) => [each.getAttribute("data-testid")!.split("-")[1], (each as HTMLElement).innerText.trim()])
            .filter(([, text]) => text)
            .map(([role, text]) => `${role}: ${text}`),
        ),
    say: async (text: string) => {
      const field = page.getByTestId("copilot-chat-textarea");
      await field.fill(text);
      await field.press("Enter");
    },
  },
  "AG-UI": inPanel("AG-UI"),
  "AI SDK": inPanel("AI SDK"),
  OpenAI: inPanel("OpenAI"),
  LangGraph: inPanel("LangGraph"),
  "Durable Streams": inPanel("Durable Streams"),
  console: {
    shown: (): Promise<Shown> =>
      console.getByRole("article", { name: /^Message from/ }).evaluateAll((found) =>
        found.map((each) => {
          const role = each.getAttribute("aria-label") === "Message from You" ? "user" : "assistant";
          return `${role}: ${(each as HTMLElement).innerText.trim()}`;
        }),
      ),
    say: async (text: string) => {
      const field = console.getByRole("textbox", { name: "Message", exact: true });
      await field.fill(text);
      await field.press("Enter");
    },
  },
};
type Name = keyof typeof clients;

async function allShow(expected: Shown): Promise<void> {
  for (const [name, { shown }] of Object.entries(clients)) {
    await expect.poll(shown, { timeout: PATIENCE_MS, message: name }).toEqual(expected);
  }
}

/** Threads of Durable Streams are read-only. */
const WRITERS: Name[] = ["CopilotKit", "AG-UI", "AI SDK", "OpenAI", "LangGraph", "console"];

test(
  "every client writes in turn, the server is killed, and all end with the same messages",
  async () => {
    const expected: Shown = [];
    for (const name of WRITERS) {
      await clients[name].say(`say from ${name}`);
      expected.push(`user: say from ${name}`, `assistant: from ${name}`);
      await allShow(expected);
    }

    await clients.OpenAI.say("slow word");
    await allShow([...expected, "user: slow word", "assistant: half"]);
    await server.restart();
    const asked = () => agent.of(threadId).filter(({ messages }) => messages.at(-1)?.content === "slow word").length;
    await until("a second call of the agent", () => asked() === 2, asked);
    await agent.goOn("word");
    expected.push("user: slow word", "assistant: half whole");
    await allShow(expected);

    for (const name of ["AI SDK", "LangGraph", "console"] as const) {
      await clients[name].say(`say again ${name}`);
      expected.push(`user: say again ${name}`, `assistant: again ${name}`);
      await allShow(expected);
    }
    const { messages } = await server.request<{ messages: { role: string; content: string }[] }>(
      "GET",
      `/v1/threads/${threadId}/messages`,
    );
    expect(messages.map(({ role, content }) => `${role}: ${content}`)).toEqual(expected);
    await expect.poll(() => page.locator("p[role=alert]").allTextContents(), { timeout: PATIENCE_MS }).toEqual([]);
  },
  6 * PATIENCE_MS,
);
