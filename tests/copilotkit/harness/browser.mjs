// Chromium with the example's page, which has CopilotKit's components for React.

import assert from "node:assert/strict";
import { servePage } from "../../../examples/copilotkit/page.mjs";
import load from "../packages/browser/import.mjs";
import { until } from "./until.mjs";

const { chromium } = await load("playwright-core");
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

const launch = () => {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args });
};

/** The page, served at one address for every test; `settingsOf` returns its settings for a user. */
export class Site {
  static async start(settingsOf) {
    const site = new Site();
    const settings = ({ url }) => settingsOf(new URL(url, "http://site").searchParams.get("user"));
    site.server = await servePage(0, settings);
    site.url = `http://127.0.0.1:${site.server.address().port}`;
    site.browser = await launch();
    return site;
  }

  /** A page that another program serves. */
  static async at(url) {
    const site = new Site();
    site.url = url;
    site.browser = await launch();
    return site;
  }

  /** A tab of a user, which opens the thread if one is given. */
  async open(user, threadId = "") {
    const page = await this.browser.newPage();
    const tab = new Tab(page);
    await tab.restores(() => page.goto(`${this.url}/?user=${user}#${threadId}`));
    return tab;
  }

  async end() {
    await this.browser?.close();
    this.server?.closeAllConnections();
    this.server?.close();
  }
}

const announcesEnd = (frame) => frame.includes('"thread_run_activity"') && frame.includes('"RUN_FINISHED"');

export class Tab {
  constructor(page) {
    this.page = page;
    this.complaints = [];
    this.answer = null;
    // The ends of runs announced to the page, and how many of them the newest closed socket was opened after.
    this.announcedEnds = 0;
    this.caughtUpEnds = 0;
    page.setDefaultTimeout(30_000);
    page.on("websocket", (socket) => {
      const before = this.announcedEnds;
      socket.on("framereceived", ({ payload }) => {
        if (announcesEnd(String(payload))) this.announcedEnds += 1;
      });
      socket.on("close", () => {
        this.caughtUpEnds = Math.max(this.caughtUpEnds, before);
      });
    });
    page.on("pageerror", (error) => this.complaints.push(error.message));
    page.on("dialog", (dialog) => (this.answer ? dialog.accept(this.answer) : dialog.dismiss()));
  }

  get threadId() {
    return new URL(this.page.url()).hash.slice(1);
  }

  /** Waits until no run is shown to be under way. */
  idle() {
    // The chat's cursor is no sign: it is hidden while the agent is thinking.
    const running = this.page.locator('[data-copilot-running="true"]');
    return until("the end of the run", async () => (await running.count()) === 0);
  }

  /**
   * Waits until the chat has caught up with the end of a run that this page did not start. When such an end is announced, the
   * chat connects again over a socket; a message sent before that socket closes is dropped by the client
   * (@copilotkit/core 1.74: `connectAgent` sets the messages that its delegate had).
   */
  catchesUp() {
    return until("the chat to connect after the end", () => this.announcedEnds > 0 && this.caughtUpEnds === this.announcedEnds);
  }

  /** Writes a message and sends it. */
  async say(text) {
    await this.idle();
    const area = this.page.getByTestId("copilot-chat-textarea");
    await area.fill(text);
    await area.press("Enter");
  }

  /** The texts of the messages, in order, with whitespace collapsed. */
  said() {
    const messages = this.page.locator('[data-testid="copilot-user-message"], [data-testid="copilot-assistant-message"]');
    return messages.evaluateAll((found) => found.map((each) => each.innerText.replace(/\s+/g, " ").trim()).filter(Boolean));
  }

  /** Waits until the messages are exactly these. */
  async shows(...said) {
    const expected = said.map((each) => each.trim());
    let shown = [];
    const same = async () => JSON.stringify((shown = await this.said())) === JSON.stringify(expected);
    await until(`${this.threadId} with ${expected}`, same, () => `but ${JSON.stringify(shown)}`);
  }

  hears(text) {
    return until(`"${text}"`, async () => (await this.said()).join(" ").includes(text));
  }

  /** Waits until the list has these threads, by their ids. */
  async lists(...threads) {
    let shown = [];
    const items = this.page.locator("nav li");
    const same = async () => {
      shown = await items.evaluateAll((found) => found.map((each) => each.dataset.thread));
      return JSON.stringify(shown) === JSON.stringify(threads);
    };
    await until(`the list ${threads}`, same, () => `but ${shown}`);
  }

  item(threadId) {
    return this.page.locator(`nav li[data-thread="${threadId}"]`);
  }

  async press(threadId, what) {
    await this.item(threadId).getByRole("button", { name: what }).click();
  }

  async turnTo(threadId) {
    await this.restores(() => this.item(threadId).locator("a").click());
  }

  async newChat() {
    await this.restores(() => this.page.getByRole("button", { name: "New chat" }).click());
  }

  reload() {
    return this.restores(() => this.page.reload());
  }

  /**
   * Opens a thread with the given action, and waits until its chat has requested the history: a message that is written before
   * that is dropped with the chat's previous messages.
   */
  async restores(open) {
    const asked = this.page.waitForResponse((response) => response.url().endsWith("/connect"));
    await open();
    await asked;
    await this.page.getByTestId("copilot-chat-textarea").waitFor();
  }

  async close() {
    assert.deepEqual(this.complaints, []);
    await this.page.close();
  }
}
