// Messages on their way to the real server: lost answers, refusals, and a server that is away for a while.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { isProblem, type Threadline, type TransportName } from "../../src/index.js";
import type { UseThread } from "../../src/react/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { log, makeThread } from "../harness/writer.js";
import { connect, said, type ThreadPage, threadPage } from "./page.js";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(async () => {
  await server?.end();
});

const clients: Threadline[] = [];
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
  proxy?.end();
});

async function open(transport: TransportName = "websocket"): Promise<[page: ThreadPage, threadId: string]> {
  proxy = await Proxy.start(server);
  const client = connect({ url: proxy.url, transports: [transport] });
  clients.push(client);
  const threadId = await makeThread(server);
  const page = threadPage(client, threadId, { agentId: "demo" });
  await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
  return [page, threadId];
}

/** How often the log has a message of the user with this text. */
async function times(threadId: string, text: string): Promise<number> {
  const inputs = (await log(server, threadId)).map(({ event }) => event.input as { messages?: { content: unknown }[] });
  return inputs.flatMap((input) => input?.messages ?? []).filter(({ content }) => content === text).length;
}

const own = ({ messages }: UseThread) => messages.filter(({ role }) => role === "user");

/** Asserts that no state of the page had one message twice. */
function expectNoneTwice({ seen }: ThreadPage): void {
  for (const { messages } of seen) expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length);
}

test("a message is shown at once, then from the log, and as failed while another run is active", async () => {
  const [page, threadId] = await open();
  const sending = page.now.send("Hello");
  await page.do(async () => {});
  expect(own(page.now)).toMatchObject([{ content: "Hello", delivery: "sending" }]);
  const id = own(page.now)[0]!.id;
  await sending;
  await page.until("it in the log", (now) => own(now)[0]?.delivery === undefined);
  expect(own(page.now)).toEqual([{ id, role: "user", content: "Hello" }]);
  await page.until("the answer", ({ run }) => run?.status === "finished");

  await server.request("POST", `/v1/threads/${threadId}/runs`, { body: { runId: "other", leaseSeconds: 60 } });
  const refused: unknown = await page.do(({ send }) => send("Again").catch((error: unknown) => error));
  expect(isProblem(refused, "run-active")).toBe(true);
  expect(own(page.now).at(-1)).toMatchObject({ content: "Again", delivery: "failed", deliveryError: refused as Error });
  await server.request("POST", `/v1/threads/${threadId}/runs/other/finish`);
  const { id: again } = own(page.now).at(-1)!;
  await page.do(({ retry }) => retry(again));
  await page.until("it in the log", (now) => own(now).length === 2 && own(now)[1]!.delivery === undefined);
  expect(own(page.now)[1]!.id).toBe(again);
  expect(await times(threadId, "Again")).toBe(1);
  expectNoneTwice(page);
});

describe.each<TransportName>(["websocket", "sse", "long-poll"])("over %s", (transport) => {
  test("a message sent while the server is away arrives once, as soon as it is back", async () => {
    const [page, threadId] = await open(transport);
    await server.kill();
    await page.until("to hear of it", ({ status }) => status.state === "reconnecting" && status.error !== null);
    const sending = page.now.send("Are you there?");
    await page.do(async () => {});
    expect(own(page.now)).toMatchObject([{ delivery: "sending" }]);
    await server.restart();
    const late = await sending.catch((error: unknown) => error);
    // A busy machine may take longer to start the server than the page waits.
    if (late instanceof Error) await page.do(({ retry, messages }) => retry(messages.at(-1)!.id));
    await page.until("the answer", (now) => now.run?.status === "finished" && own(now)[0]?.delivery === undefined);
    expect(page.now.status.state).toBe("live");
    expect(said(page.now)[0]).toBe("Are you there?");
    expect(await times(threadId, "Are you there?")).toBe(1);
    expectNoneTwice(page);
  });
});

test("a network that swallows everything is reported as slow while a message waits, and delivers it once", async () => {
  const [page, threadId] = await open();
  proxy.stall();
  const sending = page.now.send("Into the dark");
  sending.catch(() => {});
  await page.until("the silence", ({ status }) => status.state === "connecting" && status.slow);
  expect(own(page.now)).toMatchObject([{ content: "Into the dark", delivery: "sending" }]);
  await page.until("the failure", (now) => own(now)[0]?.delivery === "failed");
  expect(page.now.status.state).toBe("reconnecting");
  proxy.resume();
  // A request that was only delayed is in the log. If it was lost with its connection, the user tries again.
  await page.until("to be live", ({ status }) => status.state === "live");
  while (own(page.now)[0]?.delivery === "failed")
    await page.do(({ retry }) => retry(own(page.now)[0]!.id).catch(() => {}));
  await page.until("it in the log", (now) => own(now)[0]?.delivery === undefined && now.messages.length > 0);
  await page.until("the answer", ({ run }) => run?.status === "finished");
  expect(await times(threadId, "Into the dark")).toBe(1);
  expectNoneTwice(page);
});
