// Streams of other packages in runs of a real server, which validates what is appended, and the log of the client about them.

import { afterAll, beforeAll, expect, test } from "vitest";
import { type LogFields, Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { log } from "../harness/writer.js";
import { KINDS } from "./recorded.js";

let server: Server;
const logged: [name: string, fields: LogFields][] = [];
let client: Threadline;
beforeAll(async () => {
  server = await Server.start();
  const note = (name: string, fields: LogFields) => void (name === "unmapped" && logged.push([name, fields]));
  client = new Threadline({ url: server.url, logger: { debug: note, warn: note } });
});
afterAll(async () => {
  client?.close();
  await server?.end();
});

async function* items(stream: readonly object[]) {
  yield* stream;
}
const thread = async () => client.thread((await client.threads.create()).threadId);

test.each(KINDS)("%s are accepted, cut after each item", async (_, record) => {
  const to = await thread();
  const stream = await record();
  for (let count = 1; count <= stream.length; count += 1) {
    const run = await to.run({}, (run) => run.pipe(items(stream.slice(0, count))));
    expect([count, run.status]).toEqual([count, "finished"]);
  }
});

test("reasoning of an agent of an earlier release is accepted, in place of THINKING_*", async () => {
  const to = await thread();
  const thought = (delta: string) => [
    { type: "THINKING_START", title: "plan" },
    { type: "THINKING_TEXT_MESSAGE_START" },
    { type: "THINKING_TEXT_MESSAGE_CONTENT", delta },
    { type: "THINKING_TEXT_MESSAGE_END" },
    { type: "THINKING_END" },
  ];
  await to.run({}, (run) => run.pipe(items([...thought("First this."), ...thought("Then that.")])));
  const { messages } = await to.messages();
  expect(messages.map(({ role, content }) => [role, content])).toEqual([
    ["reasoning", "First this."],
    ["reasoning", "Then that."],
  ]);
});

test("items that are not known are logged once for each type, by their names alone", async () => {
  logged.splice(0);
  const to = await thread();
  const secret = "a text of a person";
  const odd = [
    { type: "TEXT_MESSAGE_CHUNK", delta: "Hello" },
    { type: "LATER_EVENT", value: secret },
    { type: "LATER_EVENT", value: secret },
    { type: "CUSTOM", name: "threadline.attempt", value: secret },
    { type: `LATER_${"X".repeat(500)}`, value: secret },
    { value: secret },
  ];
  const run = await to.run({ runId: "r" }, (run) => run.pipe(items(odd)));
  expect(run.status).toBe("finished");
  const { threadId } = to;
  expect(logged).toEqual([
    ["unmapped", { threadId, runId: "r", type: "LATER_EVENT", name: null }],
    ["unmapped", { threadId, runId: "r", type: "CUSTOM", name: "threadline.attempt" }],
    ["unmapped", { threadId, runId: "r", type: `LATER_${"X".repeat(94)}`, name: null }],
    ["unmapped", { threadId, runId: "r", type: null, name: null }],
  ]);
  const kept = (await log(server, threadId)).filter(({ event }) => event["name"] === "unmapped");
  expect(kept).toHaveLength(logged.length);
});
