// CopilotKit's client without a browser: its core, and its list of threads.

import { randomUUID } from "node:crypto";
import { direct, load } from "./packages.mjs";
import { until } from "./until.mjs";

// The core asks the runtime about itself only where there is a window, and connects with that window's WebSocket.
globalThis.window = globalThis;
// The core also logs every error, and tools without a schema, to the console.
console.error = console.warn = () => {};
const { WebSocket } = await load("ws");
/** How often a topic has been joined. */
const joins = new Map();
globalThis.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    // As in a browser, every message is a task of its own.
    super(url, protocols, { allowSynchronousEvents: false });
    this.addEventListener("message", ({ data }) => {
      const [join, ref, topic, event, payload] = JSON.parse(data);
      if (event === "phx_reply" && join === ref && payload.status === "ok") joins.set(topic, (joins.get(topic) ?? 0) + 1);
    });
  }
};
const { CopilotKitCore, AgentThreadLockedError, ɵcreateThreadStore: createThreadStore } = await load("@copilotkit/core");

/** Whether an error says that another run is active. */
export const busy = (error) =>
  error instanceof AgentThreadLockedError || (direct && error.message.startsWith("HTTP 409") && error.message.includes("run-active"));

/** A user's tab. */
export class Client {
  static async open(runtime, user, headers = { "x-user": user }, agentId = "scripted") {
    const client = new Client(runtime, user, headers, agentId);
    await until(`the runtime is known to ${user}`, () => client.core.runtimeConnectionStatus === "connected");
    return client;
  }

  constructor(runtime, user, headers, agentId) {
    this.agentId = agentId;
    this.runtime = runtime;
    this.user = user;
    this.headers = headers;
    // One path per call, or one address for all calls.
    const runtimeTransport = process.env.TRANSPORT ?? "rest";
    this.core = new CopilotKitCore({ runtimeUrl: runtime, runtimeTransport, headers });
    this.fetch = this.core.ɵruntimeFetch ?? globalThis.fetch;
    this.errors = [];
    this.core.subscribe({ onError: ({ error, code }) => void this.errors.push({ error, code }) });
  }

  /** A chat in a thread, without its messages yet. */
  chat(threadId = randomUUID()) {
    return new Chat(this, threadId);
  }

  /** The list of this user's threads, kept up to date. */
  async threads(options = {}) {
    const before = new Map(joins);
    const list = new ThreadList(this, options);
    await list.settled();
    // From its join on, the list receives every change.
    const topic = `user_meta:${list.store.getState().metadataJoinCode}`;
    await until(`the list in ${topic}`, () => (joins.get(topic) ?? 0) > (before.get(topic) ?? 0));
    return list;
  }

  get(path) {
    return this.fetch(this.runtime + path, { headers: this.headers });
  }
}

/** One chat of a tab. `events` has every event that its agent received, over all of its runs and connections. */
export class Chat {
  constructor(client, threadId) {
    this.client = client;
    // As the hooks for React do it: every chat has a copy of the runtime's agent.
    this.agent = client.core.getAgent(client.agentId).clone();
    this.agent.setMessages([]);
    this.agent.setState({});
    this.events = [];
    this.agent.subscribe({ onEvent: ({ event }) => void this.events.push(event) });
    this.open(threadId);
  }

  /** Switches to another thread, as a click on it does. */
  open(threadId) {
    this.threadId = threadId;
    this.agent.threadId = threadId;
    return this;
  }

  /** Sends a message; resolves when its run has ended. */
  say(text) {
    this.agent.addMessage({ id: randomUUID(), role: "user", content: text });
    return this.run();
  }

  run() {
    return this.client.core.runAgent({ agent: this.agent });
  }

  /** Opens the thread; resolves when its stream ends. */
  connect() {
    return this.client.core.connectAgent({ agent: this.agent });
  }

  stop() {
    this.client.core.stopAgent({ agent: this.agent });
  }

  get messages() {
    return this.agent.messages;
  }

  /** The messages, as `[role, content]`. */
  get said() {
    return this.messages.map(({ role, content }) => [role, content]);
  }

  /** Waits until a message contains this text. */
  hears(text) {
    const heard = () => this.messages.some(({ content }) => typeof content === "string" && content.includes(text));
    return until(`"${text}" in ${this.threadId}`, heard, () => JSON.stringify(this.said));
  }

  sees(type) {
    return until(`${type} in ${this.threadId}`, () => this.events.some((event) => event.type === type));
  }
}

/** CopilotKit's own list of threads, as `useThreads` has it. */
export class ThreadList {
  constructor(client, { includeArchived, limit } = {}) {
    this.activity = [];
    this.store = createThreadStore({ fetch: (...request) => client.fetch(...request) });
    this.store.start();
    this.store.subscribeToRunActivity?.((notice) => this.activity.push(notice));
    const { runtime: runtimeUrl, headers, agentId } = client;
    const wsUrl = client.core.intelligence?.wsUrl;
    this.store.setContext({ runtimeUrl, headers, agentId, wsUrl, includeArchived, limit });
  }

  get threads() {
    return this.store.getState().threads;
  }

  get names() {
    return this.threads.map(({ name }) => name);
  }

  find(id) {
    return this.threads.find((thread) => thread.id === id);
  }

  settled() {
    const settled = ({ isLoading, isFetchingNextPage }) => !isLoading && !isFetchingNextPage;
    return until("a page of threads", () => settled(this.store.getState()));
  }

  shows(what, test) {
    return until(what, () => test(this.threads), () => JSON.stringify(this.threads));
  }

  close() {
    this.store.stop();
  }
}
