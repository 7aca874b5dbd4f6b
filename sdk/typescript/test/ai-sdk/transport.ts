// Cases of the transport, which both versions of the AI SDK pass.

import { randomUUID } from "node:crypto";
import type { ChatInit, UIMessage } from "ai";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ThreadlineChatTransport, toUIMessages as load, type TransportOptions } from "../../src/ai-sdk/index.js";
import { ConnectionError, isProblem, Threadline, type ThreadlineOptions } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { sign } from "../harness/token.js";
import { until } from "../harness/until.js";
import { ScriptedAgent } from "./agent.js";
import { type Ai, open as openChat, says, shown } from "./chat.js";
import { textOf } from "./text.js";

/** A request that a client has sent. */
interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

export function cases(version: string, ai: Ai): void {
  describe(`ai ${version}`, () => {
    let server: Server;
    let proxy: Proxy;
    let agent: ScriptedAgent;
    beforeAll(async () => {
      server = await Server.start();
      proxy = await Proxy.start(server);
      agent = await ScriptedAgent.start(server);
    });
    afterAll(async () => {
      agent?.end();
      proxy?.end();
      await server?.end();
    });

    const clients: Threadline[] = [];
    let requests: Request[] = [];
    afterEach(() => {
      for (const client of clients.splice(0)) client.close();
      requests = [];
    });

    /** A client whose requests are noted. */
    function connect(options: Partial<ThreadlineOptions> = {}): Threadline {
      const noting: typeof fetch = (address, init) => {
        const { pathname } = new URL(String(address));
        const body = typeof init?.body === "string" ? (JSON.parse(init.body) as Request["body"]) : undefined;
        requests.push({ method: init?.method ?? "GET", path: pathname, headers: new Headers(init?.headers), body });
        return fetch(address, init);
      };
      const client = new Threadline({ url: proxy.url, fetch: noting, ...options });
      clients.push(client);
      return client;
    }

    /** A page with a chat, over a client of its own. */
    function page(init: Partial<ChatInit<UIMessage>> = {}, options: Partial<TransportOptions> = {}) {
      const { client = connect(), agentId = "scripted", ...rest } = options;
      const transport = new ThreadlineChatTransport({ client, agentId, ...rest });
      return { chat: openChat(ai, { transport, ...init }), transport, client };
    }

    test("the transport extends the one of this version", () => {
      expect(ai.DefaultChatTransport.prototype).toBe(Object.getPrototypeOf(ThreadlineChatTransport.prototype));
      expect(page().transport.resumeStreamIsReplay).toBe(true);
    });

    test("a chat sends only its last message, and a page that loads it goes on", async () => {
      const { chat, client } = page({}, { body: { plan: "gold" }, headers: { "X-Trace": "t1" } });
      await chat.sendMessage({ text: "say Hello there" });
      await chat.sendMessage({ text: "say again" }, { body: { plan: "silver" } });
      expect([chat.status, chat.error]).toEqual(["ready", undefined]);
      expect(shown(chat)).toEqual([
        "user: say Hello there",
        "assistant: Hello there",
        "user: say again",
        "assistant: again",
      ]);
      const sent = requests.filter(({ method }) => method === "POST");
      expect(sent.map(({ path }) => path)).toEqual(["/ai/scripted", "/ai/scripted"]);
      for (const { body, headers } of sent) {
        expect(body).not.toHaveProperty("messages");
        expect(headers.get("content-type")).toBe("application/json");
        expect(headers.get("x-trace")).toBe("t1");
      }
      expect(sent[1]!.body).toMatchObject({
        id: chat.id,
        trigger: "submit-message",
        message: { parts: [{ text: "say again" }] },
      });
      // The agent was given the whole conversation, and the members of the application.
      const inputs = agent.of(chat.id);
      expect(inputs.at(-1)!.messages).toHaveLength(3);
      expect(inputs.map(({ forwardedProps }) => forwardedProps)).toMatchObject([{ plan: "gold" }, { plan: "silver" }]);

      const { messages, activeRunId, hasMore } = await load(client, "scripted", chat.id);
      expect([activeRunId, hasMore]).toEqual([null, false]);
      expect(messages).toMatchObject(JSON.parse(JSON.stringify(chat.messages)) as object);
      const other = page({ id: chat.id, messages });
      await other.chat.sendMessage({ text: "say more" });
      expect(shown(other.chat).slice(-2)).toEqual(["user: say more", "assistant: more"]);
    });

    test("a chat that does not exist has no messages, and an agent that does not exist is a problem", async () => {
      const client = connect();
      const empty = { messages: [], activeRunId: null, hasMore: false };
      expect(await load(client, "scripted", randomUUID())).toEqual(empty);
      const failure: unknown = await load(client, "nobody", randomUUID()).catch((error: unknown) => error);
      expect(isProblem(failure, "agent-not-found")).toBe(true);
      await expect(load(client, "scripted", "..")).rejects.toThrow("cannot be used as an id");
      expect(() => new ThreadlineChatTransport({ client: {} as Threadline, agentId: "scripted" })).toThrow(
        /not a Threadline client/,
      );
      // A chat without a run can be stopped and resumed.
      const { chat, transport } = page();
      await transport.stop(chat.id);
      await chat.resumeStream();
      expect([chat.status, chat.messages]).toEqual(["ready", []]);
    });

    test("pages that load in the middle of an answer follow it, and a stop ends it for all", async () => {
      for (const stops of [false, true]) {
        const word = randomUUID();
        const { chat, client, transport } = page();
        const sent = chat.sendMessage({ text: `slow ${word}` });
        await says(chat, "half ");
        const { messages, activeRunId } = await load(client, "scripted", chat.id);
        expect(messages.at(-1)!.id).toBe(activeRunId);
        const others = [messages, messages.slice(0, 1)].map((messages) => page({ id: chat.id, messages }));
        const resumed = others.map(({ chat }) => chat.resumeStream());
        for (const other of others) await says(other.chat, "half ");
        if (stops) await transport.stop(chat.id);
        else await agent.goOn(word);
        await Promise.all([sent, ...resumed]);
        for (const one of [chat, ...others.map(({ chat }) => chat)]) {
          expect(one.status).toBe("ready");
          expect(shown(one)).toEqual([`user: slow ${word}`, `assistant: ${stops ? "half " : "half whole"}`]);
        }
        expect((await client.thread(chat.id).get()).lastRun?.status).toBe(stops ? "stopped" : "finished");
        expect((await load(client, "scripted", chat.id)).activeRunId).toBeNull();
      }
    });

    test("stop of the chat leaves the stream, and the run goes on", async () => {
      const word = randomUUID();
      const { chat, client } = page();
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await says(chat, "half ");
      expect((await client.thread(chat.id).subscriptions()).count).toBe(1);
      await chat.stop();
      await sent;
      expect(chat.status).toBe("ready");
      await until("no reader", async () => (await client.thread(chat.id).subscriptions()).count === 0);
      await agent.goOn(word);
      await until("the end of the run", async () => !(await load(client, "scripted", chat.id)).activeRunId);
      expect(shown(await load(client, "scripted", chat.id))).toEqual([`user: slow ${word}`, "assistant: half whole"]);
    });

    test("an answer made again and an edited message begin branches", async () => {
      const { chat, client } = page();
      await chat.sendMessage({ text: "say one" });
      const first = chat.lastMessage!.id;
      await chat.regenerate();
      expect(shown(chat)).toEqual(["user: say one", "assistant: one"]);
      expect(chat.lastMessage!.id).not.toBe(first);
      await chat.sendMessage({ text: "say two", messageId: chat.messages[0]!.id });
      expect(shown(chat)).toEqual(["user: say two", "assistant: two"]);
      expect(shown(await load(client, "scripted", chat.id))).toEqual(shown(chat));
      expect(await client.thread(chat.id).branches()).toHaveLength(3);
    });

    test("tools of the page are sent with each message", async () => {
      const calls: string[] = [];
      let places = ["Paris"];
      const tools = () => [{ name: "locate", description: `One of ${places.join()}`, parameters: { type: "object" } }];
      const init: Partial<ChatInit<UIMessage>> = {
        onToolCall: ({ toolCall: { toolName: tool, toolCallId } }) => {
          calls.push(tool);
          places = ["Paris", "Rome"];
          void chat.addToolOutput({ tool: tool as never, toolCallId, output: "Paris" as never });
        },
        sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
      };
      const { chat } = page(init, { tools });
      await chat.sendMessage({ text: "locate" });
      await says(chat, "You are in Paris.");
      await until("the end", () => chat.status === "ready");
      expect(calls).toEqual(["locate"]);
      expect(chat.messages).toHaveLength(2);
      // The second request was sent by the SDK, without a body of the application.
      expect(agent.of(chat.id).map(({ tools }) => tools)).toMatchObject([
        [{ name: "locate", description: "One of Paris" }],
        [{ name: "locate", description: "One of Paris,Rome" }],
      ]);
      // Tools of a single message take the place of these.
      await chat.sendMessage({ text: "say fine" }, { body: { tools: [] } });
      expect(agent.of(chat.id).at(-1)!.tools).toEqual([]);
    });

    test("an approval is given, and another message is refused until then", async () => {
      const approving = { sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses };
      const { chat, client } = page(approving);
      await chat.sendMessage({ text: "mail" });
      const { messages } = await load(client, "scripted", chat.id);
      const other = page({ id: chat.id, messages });
      await other.chat.sendMessage({ text: "say more" });
      expect(isProblem(other.chat.error, "interrupts-open")).toBe(true);
      const part = chat.lastMessage!.parts.find(({ type }) => type === "dynamic-tool");
      const { approval } = part as { approval?: { id: string } };
      await chat.addToolApprovalResponse({ id: approval!.id, approved: true });
      await says(chat, "Sent.");
      expect(chat.messages).toHaveLength(2);
    });

    test("a refusal is a problem with a readable message, and a failed answer has its text", async () => {
      const word = randomUUID();
      const { chat } = page();
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await says(chat, "half ");
      const other = page({ id: chat.id });
      await other.chat.sendMessage({ text: "say more" });
      expect(other.chat.status).toBe("error");
      expect(isProblem(other.chat.error, "run-active")).toBe(true);
      expect(other.chat.error!.message).toMatch(/^[A-Z].*\(409 run-active\)/);
      // The message was sent once.
      expect(requests.filter(({ method }) => method === "POST")).toHaveLength(2);
      await agent.goOn(word);
      await sent;
      await chat.sendMessage({ text: "fail" });
      expect([chat.status, chat.error?.message]).toEqual(["error", "The agent cannot do that."]);
    });

    test("a message that waits for its turn", async () => {
      const word = randomUUID();
      const { chat } = page();
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await says(chat, "half ");
      const other = page({ id: chat.id }, { busy: "enqueue" });
      const waits = other.chat.sendMessage({ text: "say later" });
      await until("the turn", async () => (await other.client.thread(chat.id).get()).queued === 1);
      await agent.goOn(word);
      await Promise.all([sent, waits]);
      expect(textOf(other.chat.lastMessage)).toBe("later");
      expect(requests.filter(({ headers }) => headers.has("threadline-busy"))).toHaveLength(1);
    });

    test("a lost connection is one for the SDK, and the chat is resumed when the server is back", async () => {
      const word = randomUUID();
      const ended: boolean[] = [];
      const { chat, client } = page({ onFinish: ({ isDisconnect }) => void ended.push(isDisconnect) });
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await says(chat, "half ");
      proxy.refuse = true;
      proxy.cut();
      await sent;
      expect(chat.status).toBe("error");
      expect(ended).toEqual([true]);
      const resumed = chat.resumeStream();
      const refused = () => requests.filter(({ path }) => path.endsWith("/stream")).length;
      await until("a second attempt", () => refused() > 1);
      proxy.refuse = false;
      await until("a reader", async () => (await client.thread(chat.id).subscriptions()).count === 1);
      await agent.goOn(word);
      await resumed;
      expect(shown(chat)).toEqual([`user: slow ${word}`, "assistant: half whole"]);

      // A message is sent once, since it may have arrived.
      proxy.refuse = true;
      proxy.cut();
      const before = requests.length;
      await chat.sendMessage({ text: "say more" });
      proxy.refuse = false;
      expect(requests).toHaveLength(before + 1);
      expect(ended.at(-1)).toBe(true);
      expect(chat.error).toBeInstanceOf(TypeError);
      expect(chat.error!.cause).toBeInstanceOf(ConnectionError);
      expect(chat.error!.message).toContain("no answer from");
    });

    test("the end of the client ends its streams", async () => {
      const word = randomUUID();
      const { chat, client } = page();
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await says(chat, "half ");
      client.close();
      await sent;
      await until("no reader", async () => (await connect().thread(chat.id).subscriptions()).count === 0);
      await chat.sendMessage({ text: "say more" });
      expect(chat.error).toMatchObject({ name: "ClosedError" });
      await agent.goOn(word);
    });

    test("requests use the address, the token and the fetch of the client", async () => {
      const secured = await Server.start({ apiKey: "the-operator-of-the-tests" });
      try {
        const secret = await secured.cli("projects", "renew-secret", "default");
        const now = Math.floor(Date.now() / 1_000);
        let made = 0;
        // The first token has expired already: the server refuses it, and it is renewed.
        const token = () => sign(secret, { sub: "anna", exp: made++ === 0 ? now - 3_600 : now + 3_600 });
        const { chat, client } = page({}, { client: connect({ url: secured.url, token }), agentId: "demo" });
        await chat.sendMessage({ text: "Hello" });
        expect([chat.status, made]).toEqual(["ready", 2]);
        expect(textOf(chat.lastMessage)).not.toBe("");
        expect(await load(client, "demo", chat.id)).toMatchObject({
          messages: [{ role: "user" }, { role: "assistant" }],
        });
        const stranger = connect({ url: secured.url, token: sign(secret, { sub: "bob", exp: now + 3_600 }) });
        expect((await load(stranger, "demo", chat.id)).messages).toEqual([]);
      } finally {
        await secured.end();
      }
      // A path before the API is kept, and ids are escaped.
      const addresses: string[] = [];
      const answers: typeof fetch = async (address) => {
        addresses.push(String(address));
        return new Response(null, { status: 204 });
      };
      const { chat } = page(
        { id: "a/b" },
        { client: connect({ url: "http://x.test/threads/", fetch: answers }), agentId: "c d" },
      );
      await chat.resumeStream();
      expect(addresses).toEqual(["http://x.test/threads/ai/c%20d/a%2Fb/stream"]);
    });
  });
}
