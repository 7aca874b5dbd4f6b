// Tests what dehydrate reads, and what a page does with it.

import "./dom.js";
import { cleanup, render } from "@testing-library/react";
import { Component, type ReactElement, type ReactNode, Suspense } from "react";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { Message, MessagesPage, Threadline, ThreadlineOptions } from "../../src/index.js";
import { DEHYDRATED_BYTES } from "../../src/limits.js";
import {
  type Dehydrated,
  ThreadlineProvider,
  type ThreadSnapshot,
  useAgents,
  useConnectionStatus,
  useSuspenseThread,
  useThread,
  useThreadValue,
  type UseThread,
} from "../../src/react/index.js";
import { dehydrate } from "../../src/react/server.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, listPage, Page } from "./page.js";

let server: Server;
beforeAll(async () => (server = await Server.start({ apiKey: "operators-secret-key-0123456789" })));
afterAll(() => server?.end());

const USER = "ann";
const clients: Threadline[] = [];
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
  vi.restoreAllMocks();
});

function client(options: Partial<ThreadlineOptions> = {}): Threadline {
  const made = connect({ url: server.url, apiKey: server.apiKey!, user: USER, ...options });
  clients.push(made);
  return made;
}

async function put(threadId: string, runId: string, events: readonly object[]): Promise<void> {
  await server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, { body: events, user: USER });
}

/** A page whose first render has the initial data. */
function open(threadId: string, initial: Dehydrated, made = client()) {
  let now: UseThread | undefined;
  const Shown = () => {
    now = useThread(threadId);
    return null;
  };
  const tree = (
    <ThreadlineProvider client={made} initial={initial}>
      <Shown />
    </ThreadlineProvider>
  );
  const { unmount } = render(tree);
  return {
    get now() {
      return now!;
    },
    unmount,
    again: () => render(tree),
  };
}

test("the text cannot end a script, holds no credential, and leaves out what does not exist", async () => {
  const threadId = await makeThread(server, undefined, USER);
  const content = "</script><!--\u2028\u2029 \ud83d\ude00";
  await put(threadId, "run", [{ type: "MESSAGES_SNAPSHOT", messages: [{ id: "<m>", role: "user", content }] }]);
  const initial = await dehydrate(client(), [threadId, "missing", threadId]);
  expect(initial.threads).toHaveLength(1);
  const text = JSON.stringify(initial);
  expect(text).not.toMatch(/[<\u2028\u2029]/);
  expect(text).not.toContain(server.apiKey);
  expect(text).not.toContain(server.url);
  const { now } = open(threadId, JSON.parse(text) as Dehydrated);
  expect(now).toMatchObject({ isLoading: false, messages: [{ id: "<m>", role: "user", content }] });
});

test("it is bounded: the newest messages are included, and the page loads the older ones", async () => {
  const threadId = await makeThread(server, undefined, USER);
  const messages = Array.from({ length: 20 }, (_, at) => ({
    id: `m${at}`,
    role: "user",
    content: `"${at}"\n`.repeat(6_000),
  }));
  await put(threadId, "big", [{ type: "MESSAGES_SNAPSHOT", messages }]);
  const initial = await dehydrate(client(), [threadId]);
  const { length } = Buffer.from(JSON.stringify(initial));
  expect(length).toBeLessThanOrEqual(DEHYDRATED_BYTES);
  expect(length).toBeGreaterThan(DEHYDRATED_BYTES * 0.8);
  const page = open(threadId, initial);
  const { length: shown } = page.now.messages;
  expect(page.now.hasMoreMessages).toBe(true);
  expect(page.now.messages).toEqual(messages.slice(-shown));
  await page.now.fetchMoreMessages();
  await until("all of them", () => page.now.messages.length === 20);
  expect(page.now.messages).toEqual(messages);
  await expect(
    dehydrate(
      client(),
      Array.from({ length: 17 }, (_, at) => `t${at}`),
    ),
  ).rejects.toThrow(/17 threads/);
  // What does not fit at all is loaded by the page.
  await put(threadId, "state", [{ type: "STATE_SNAPSHOT", snapshot: { text: "x".repeat(DEHYDRATED_BYTES) } }]);
  expect(await dehydrate(client(), [threadId])).toEqual({ threads: [] });
});

test("an active run is the same as on the server at that event, with calls and reasoning", async () => {
  const threadId = await makeThread(server, undefined, USER);
  const runs = `/v1/threads/${threadId}/runs`;
  await server.request("POST", runs, { body: { runId: "open", leaseSeconds: 60 }, user: USER });
  const deltas = (type: string, members: object) =>
    ["a", "b", "\ud83d", "\ude00"].map((delta) => ({ type, ...members, delta }));
  const events = [
    { type: "RUN_STARTED", input: { messages: [{ id: "u", role: "user", content: "Where?" }] } },
    { type: "REASONING_MESSAGE_START", messageId: "r", role: "reasoning" },
    ...deltas("REASONING_MESSAGE_CONTENT", { messageId: "r" }),
    ...deltas("TEXT_MESSAGE_CHUNK", { messageId: "c", role: "assistant" }),
    { type: "TOOL_CALL_START", toolCallId: "t", toolCallName: "locate", parentMessageId: "c" },
    ...deltas("TOOL_CALL_ARGS", { toolCallId: "t" }),
    ...deltas("TEXT_MESSAGE_CHUNK", { messageId: "d", role: "assistant" }).map((event, at) => ({
      ...event,
      ...(at === 2 && { metadata: { at } }),
    })),
    { type: "STATE_SNAPSHOT", snapshot: { step: 1 } },
  ];
  await server.request("POST", `${runs}/open/events?producerSeq=1`, { body: events, user: USER });
  const initial = await dehydrate(client(), [threadId]);
  const asked = await server.request<MessagesPage>("GET", `/v1/threads/${threadId}/messages`, { user: USER });
  // Looked at before the page can have followed the thread.
  const page = open(threadId, initial);
  expect(page.now.messages).toEqual(asked.messages);
  expect(page.now).toMatchObject({ isRunning: true, state: { step: 1 }, pendingToolCalls: [] });
  // Only once the page knows the rest of the log, a call without a result is for it to execute.
  await until("the call", () => page.now.pendingToolCalls.length === 1);
  expect(page.now.messages).toEqual(asked.messages);
});

test("a record that has changed since is read again, also if the page follows the changes already", async () => {
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { deltas: 1, user: USER });
  const made = client();
  const initial = await dehydrate(made, [threadId]);
  await server.request("PATCH", `/v1/threads/${threadId}`, { body: { name: "Renamed" }, user: USER });
  const list = listPage(made);
  await list.until("the list", ({ threads }) => threads.some(({ name }) => name === "Renamed"));
  await until("the feed", () => made.status.state === "live");
  const page = open(threadId, initial, made);
  expect(page.now.thread?.name).toBeNull();
  await until("the name", () => page.now.thread?.name === "Renamed");
});

test("a thread that was deleted since is not shown again", async () => {
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { deltas: 1, user: USER });
  const made = client();
  const initial = await dehydrate(made, [threadId]);
  await server.request("DELETE", `/v1/threads/${threadId}`, { user: USER });
  const page = open(threadId, initial, made);
  expect(page.now.messages).toHaveLength(1);
  await until("the deletion", () => page.now.error !== null);
  expect(page.now.messages).toEqual([]);
  page.unmount();
  await until("nothing to be followed", () => made.status.state === "idle");
  page.again();
  expect(page.now).toMatchObject({ messages: [], isLoading: true });
});

class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError = (error: Error) => ({ error });
  override render() {
    return this.state.error ? `boundary: ${this.state.error.message}` : this.props.children;
  }
}

test("a suspended component waits for the thread, and passes a refusal to the error boundary", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const threadId = await makeThread(server, undefined, USER);
  await write(server, threadId, { deltas: 1, user: USER });
  const Shown = (): ReactElement => {
    const { messages, error } = useSuspenseThread(threadId);
    return <>{`${messages.length} messages ${error?.message ?? ""}`}</>;
  };
  const show = (made: Threadline) =>
    render(
      <ThreadlineProvider client={made}>
        <Boundary>
          <Suspense fallback="wait">
            <Shown />
          </Suspense>
        </Boundary>
      </ThreadlineProvider>,
    ).container;
  const made = client();
  const page = show(made);
  expect(page.textContent).toBe("wait");
  await until("the message", () => page.textContent === "1 messages ");
  const refused = show(client({ apiKey: "not-a-key-of-this-server-0123456789" }));
  await until(
    "the refusal",
    () => refused.textContent?.startsWith("boundary: "),
    () => refused.textContent,
  );
});

test("a value renders when it changes, by the given comparison", async () => {
  const threadId = await makeThread(server, undefined, USER);
  const select = ({ messages }: ThreadSnapshot) => messages.map(({ role }) => role);
  const equal = (one: string[], other: string[]) => one.join() === other.join();
  const use = ({ id }: { id: string | null }) => useThreadValue(id, select, equal);
  const page = new Page(client(), use, { id: threadId as string | null });
  await write(server, threadId, { deltas: 50, batch: 1, user: USER });
  await page.until("the message", (now) => now.length === 1);
  // The list is equal in almost all snapshots.
  expect(page.seen.filter((now) => now.length === 1)).toHaveLength(1);
  page.show({ id: null });
  await page.until("nothing", (now) => now.length === 0);
});

test("the connection's status and the agents are there for every component", async () => {
  const made = client();
  const page = new Page(made, () => ({ ...useAgents(), status: useConnectionStatus() }), {});
  expect(page.now).toMatchObject({ agents: [], isLoading: true, status: { state: "idle" } });
  await page.until("the agents", ({ isLoading }) => !isLoading);
  expect(page.now.agents).toEqual(await made.agents.list());
  const other = client({ apiKey: "not-a-key-of-this-server-0123456789" });
  const refused = new Page(other, () => useAgents(), {});
  await refused.until("the refusal", ({ isLoading, error }) => !isLoading && error !== null);
  const away = client({ url: "http://127.0.0.1:9" });
  const waiting = new Page(away, () => useAgents(), {});
  await waiting.until("the trouble", ({ isLoading, error }) => isLoading && error !== null);
});

test("the types of state and messages are the caller's", () => {
  type Told = Message & { readonly metadata?: { readonly cost: number } };
  const use = () => useThread<{ city: string }, Told>(null);
  type Typed = ReturnType<typeof use>;
  const city = ({ state }: Typed): string => state.city;
  const cost = ({ messages }: Typed): number | undefined => messages[0]?.metadata?.cost;
  // @ts-expect-error: the state has no such member.
  const town = ({ state }: Typed): string => state.town;
  const shown = { state: { city: "Oslo" }, messages: [{ id: "m", role: "user", metadata: { cost: 2 } }] };
  const typed = shown as unknown as Typed;
  expect([city(typed), cost(typed), town(typed)]).toEqual(["Oslo", 2, undefined]);
});
