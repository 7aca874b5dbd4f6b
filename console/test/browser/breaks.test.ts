// Reloads, a server that is killed, a network that is cut: afterwards no event is missing, and none is shown twice.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { client, log, openRun, Proxy, said, Server, text, thread } from "./harness/api.ts";
import { AWAY, Chromium } from "./harness/chromium.ts";
import {
  banner,
  begin,
  button,
  from,
  gone,
  idle,
  letters,
  messages,
  numbers,
  row,
  rowOf,
  running,
  send,
  squeezed,
  toTop,
  upTo,
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
let proxy: Proxy;
beforeAll(async () => {
  // Runs of a dead server end soon.
  [server, browser] = await Promise.all([Server.start({ args: ["--lock-ttl-seconds", "3"] }), Chromium.start()]);
  proxy = await Proxy.start(server);
});
afterEach(() => browser.leave());
afterAll(async () => {
  proxy?.end();
  await Promise.all([browser?.end(), server?.end()]);
});

/** Waits until so many numbered sentences are shown. */
const reaches = (page: Page, count: number, who = "demo") =>
  expect.poll(async () => (await numbers(from(page, who).locator(".said"))).length).toBeGreaterThanOrEqual(count);

/** Asserts that the page shows the stored text, with each sentence once and in order. */
async function expectWhole(page: Page, threadId: string, who = "demo"): Promise<void> {
  const stored = (await said(server, threadId, "assistant")).join("");
  await expect.poll(() => letters(from(page, who).locator(".said"))).toBe(squeezed(stored));
  const seen = await numbers(from(page, who).locator(".said"));
  expect(seen).toEqual(upTo(seen.length));
}

/** A run that writes numbered sentences, one by one, until the test ends it. */
class Speaker {
  readonly threadId: string;
  readonly #run: Awaited<ReturnType<typeof openRun>>;
  #said = 0;

  static async start(threadId: string): Promise<Speaker> {
    const speaker = new Speaker(threadId, await openRun(server, threadId));
    await speaker.#run.run.append({ type: "TEXT_MESSAGE_START", messageId: "speech", role: "assistant" });
    return speaker;
  }

  private constructor(threadId: string, run: Awaited<ReturnType<typeof openRun>>) {
    this.threadId = threadId;
    this.#run = run;
  }

  /** Does not wait for their arrival: the server may be unreachable. */
  async say(count: number): Promise<void> {
    for (let each = 0; each < count; each += 1) {
      this.#said += 1;
      await this.#run.run.append({
        type: "TEXT_MESSAGE_CONTENT",
        messageId: "speech",
        delta: `(${this.#said}) sentence, `,
      });
    }
  }

  async end(): Promise<void> {
    await this.#run.run.append({ type: "TEXT_MESSAGE_END", messageId: "speech" });
    await this.#run.end();
  }
}

const speakerIn = async (name: string) => Speaker.start(await thread(server, [], { name }));

test("a reload during a run continues the text where it was", async () => {
  const page = await browser.open(server);
  const threadId = await begin(page, "Write me a long answer");
  await reaches(page, 3);
  await page.reload();
  await running(page);
  await reaches(page, 6);
  await page.reload();
  await reaches(page, 9);
  await button(page, "Stop").click();
  await idle(page);
  await expectWhole(page, threadId);
  await page.reload();
  await expectWhole(page, threadId);
  // Only messages in sight are rendered.
  await toTop(page);
  await expect.poll(() => from(page, "You").count()).toBe(1);
});

describe("the server is killed during a run and restarted", () => {
  test("a run of the server's own agent goes on from its question", async () => {
    const page = await browser.open(server, { expects: [AWAY] });
    const threadId = await begin(page, "Write me a long answer");
    await reaches(page, 3);
    await server.kill();
    await banner(page).getByText("Connection lost").waitFor();
    await server.restart();
    await gone(banner(page));
    const types = async () => {
      const events = (await log(server, threadId)).map(({ event }) => event);
      const attempt = events.findIndex(({ name }) => name === "threadline.attempt");
      return attempt < 0 ? [] : events.slice(attempt).map(({ type }) => type);
    };
    await expect.poll(types, { timeout: 20_000 }).toContain("TEXT_MESSAGE_CONTENT");
    expect((await types())[0]).toBe("CUSTOM");
    await button(page, "Stop").click();
    await idle(page);
    expect((await types()).at(-1)).toBe("RUN_FINISHED");
    await expectWhole(page, threadId);
    await gone(rowOf(page, threadId).getByRole("img", { name: "Running" }));
  });

  test("a run of a program that continues is shown on", async () => {
    const speaker = await speakerIn("Through a restart");
    const page = await browser.open(server, { at: `#/threads/${speaker.threadId}`, expects: [AWAY] });
    await speaker.say(20);
    await reaches(page, 20, "writer");
    await server.kill();
    await speaker.say(20);
    await banner(page).waitFor();
    await server.restart();
    await reaches(page, 40, "writer");
    await gone(banner(page));
    await speaker.say(20);
    await speaker.end();
    await idle(page);
    await reaches(page, 60, "writer");
    await expectWhole(page, speaker.threadId, "writer");
  });

  test("a message that is written during the outage is shown at once, and sent when the server is back", async () => {
    const threadId = await thread(server, text("m", "assistant", "Here I am"), { name: "Kept" });
    const page = await browser.open(server, { at: `#/threads/${threadId}`, expects: [AWAY] });
    await messages(page).getByText("Here I am").waitFor();
    await server.kill();
    await banner(page).waitFor();
    await messages(page).getByText("Here I am").waitFor();
    await row(page, "Kept").waitFor();
    await send(page, "Meanwhile");
    await from(page, "You").getByText("Meanwhile").waitFor();
    await from(page, "You").getByText("Sending…").waitFor();
    await server.restart();
    await gone(banner(page));
    const arrived = async () => {
      // A busy machine may take longer to start the server than the page waits.
      const again = button(page, "Send again");
      if (await again.isVisible()) await again.click();
      return said(server, threadId, "user");
    };
    await expect.poll(arrived).toEqual(["Meanwhile"]);
    await idle(page);
    await gone(from(page, "You").getByText("Sending…"));
    // Only messages in sight are rendered.
    await toTop(page);
    await expect.poll(() => from(page, "You").count()).toBe(1);
    await client(server).thread(threadId).rename("Kept and renamed");
    await row(page, "Kept and renamed").waitFor();
  });
});

describe("without a network for a while", () => {
  test("the browser reports being offline: the page catches up by itself and shows nothing twice", async () => {
    const speaker = await speakerIn("Offline");
    const page = await browser.open(server, { at: `#/threads/${speaker.threadId}`, expects: [AWAY] });
    await speaker.say(10);
    await reaches(page, 10, "writer");
    await page.context().setOffline(true);
    await banner(page).waitFor();
    await speaker.say(30);
    await client(server).thread(speaker.threadId).rename("Renamed meanwhile");
    await expect(numbers(from(page, "writer").locator(".said"))).resolves.toEqual(upTo(10));
    await page.context().setOffline(false);
    await gone(banner(page));
    await reaches(page, 40, "writer");
    await row(page, "Renamed meanwhile").waitFor();
    await speaker.say(10);
    await speaker.end();
    await reaches(page, 50, "writer");
    await expectWhole(page, speaker.threadId, "writer");
  });

  test("connections are cut, and refused for a time", async () => {
    const speaker = await speakerIn("Cut");
    const page = await browser.open(proxy, { at: `#/threads/${speaker.threadId}`, expects: [AWAY] });
    await speaker.say(10);
    await reaches(page, 10, "writer");
    // Short interruptions are not shown.
    for (let count = 20; count <= 40; count += 10) {
      await expect.poll(() => proxy.cut()).toBeGreaterThan(0);
      await speaker.say(10);
      await reaches(page, count, "writer");
    }
    proxy.refuse = true;
    proxy.cut();
    await banner(page).waitFor();
    await speaker.say(10);
    await speaker.end();
    proxy.refuse = false;
    await reaches(page, 50, "writer");
    await gone(banner(page));
    await idle(page);
    await expectWhole(page, speaker.threadId, "writer");
  });

  test("a network without WebSockets", async () => {
    proxy.upgrade = "refuse";
    const speaker = await speakerIn("Without sockets");
    const page = await browser.open(proxy, {
      at: `#/threads/${speaker.threadId}`,
      expects: [/WebSocket connection to/],
    });
    await speaker.say(10);
    await reaches(page, 10, "writer");
    await speaker.say(10);
    await speaker.end();
    await reaches(page, 20, "writer");
    await idle(page);
    await expectWhole(page, speaker.threadId, "writer");
    proxy.upgrade = "pass";
  });

  test("a page that is opened while the server is unreachable loads as soon as it is back", async () => {
    const threadId = await thread(server, text("m", "assistant", "Back again"), { name: "Away" });
    const page = await browser.open(proxy, { at: "#/", expects: [AWAY] });
    await row(page, "Away").waitFor();
    proxy.refuse = true;
    proxy.cut();
    await banner(page).waitFor();
    await row(page, "Away").click();
    await page.waitForURL(`**/#/threads/${threadId}`);
    proxy.refuse = false;
    await messages(page).getByText("Back again").waitFor();
    await gone(banner(page));
  });
});
