// Runs whose events the server validates as AG-UI, by default: how a refusal ends a run, and how validation is turned off.

import { describe, expect, test } from "vitest";
import { isProblem, type NewEvent, ProblemError, type RunHandle, Threadline, type ThreadRef } from "../src/index.js";
import { caught } from "./harness/caught.js";
import { client, server, useServerAndClient } from "./harness/served.js";
import { log } from "./harness/writer.js";

useServerAndClient();

const thread = async (through = client) => through.thread((await client.threads.create()).threadId);
const types = async ({ threadId }: ThreadRef) => (await log(server, threadId)).map(({ event }) => event.type);
const ok = { type: "CUSTOM", name: "n", value: 1 } as const;
const wrong = { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: 5 } as unknown as NewEvent;
const own = { type: "app.note", value: 1 } as const;

describe("an event that does not conform to AG-UI", () => {
  test.each<[string, (run: RunHandle) => unknown]>([
    ["that is awaited", (run) => run.append([ok, wrong])],
    ["that nobody awaits", (run) => void run.append([ok, wrong])],
    ["whose refusal is caught", (run) => run.append([ok, wrong]).then(() => run.flush().catch(() => {}))],
    [
      "whose refusal ends a request of the body",
      async (run) => {
        await run.append([ok, wrong]);
        await new Promise((_, reject) => run.signal.addEventListener("abort", () => reject(new Error("aborted"))));
      },
    ],
    ["of an own type", (run) => run.append([ok, own])],
    ["that ends what has not begun", (run) => run.append([ok, { type: "TEXT_MESSAGE_END", messageId: "m" }])],
    [
      "that ends the run before its text",
      (run) => {
        void run.append(ok);
        void run.text().write("half");
        void run.append({ type: "RUN_FINISHED", threadId: run.threadId, runId: run.runId });
      },
    ],
  ])("%s fails the run with `invalid-event`, and nothing of its request is stored", async (_, body) => {
    const to = await thread();
    const error = await caught(to.run({}, body));
    expect(isProblem(error, "invalid-event")).toBe(true);
    expect((error as ProblemError).problem).toMatchObject({
      path: expect.stringMatching(/^\//) as string,
      expected: expect.any(String) as string,
    });
    expect((await to.runs()).runs[0]).toMatchObject({ status: "error", errorCode: "invalid-event" });
    expect(await types(to)).toEqual(["RUN_STARTED", "RUN_ERROR"]);
  });

  test("leaves what was stored before, whose open parts are ended", async () => {
    const to = await thread();
    const failed = to.run({}, async (run) => {
      await run.text().write("so far");
      await run.flush();
      await run.append([ok, wrong]);
    });
    expect(isProblem(await caught(failed), "invalid-event")).toBe(true);
    const { messages } = await to.messages();
    expect(messages.map(({ content }) => content)).toEqual(["so far"]);
    expect(await types(to)).toEqual([
      "RUN_STARTED",
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TEXT_MESSAGE_END",
      "RUN_ERROR",
    ]);
  });

  test("of the beginning begins no run", async () => {
    const to = await thread();
    const messages = [{ id: "m", role: "user", content: 5 as never }] as const;
    const refused = await caught(to.run({ messages }, () => expect.unreachable()));
    expect(isProblem(refused, "invalid-event")).toBe(true);
    expect((await to.runs()).runs).toEqual([]);
  });

  test("that follows a stop fails the run, too", async () => {
    const to = await thread();
    const failed = to.run({ runId: "r" }, async (run) => {
      await to.stop("r");
      await new Promise((resolve) => run.signal.addEventListener("abort", resolve));
      void run.append(wrong);
    });
    expect(isProblem(await caught(failed), "invalid-event")).toBe(true);
    expect((await to.runs()).runs[0]!.endedAt).not.toBeNull();
  });
});

test("validation is turned off for a run, and for a client", async () => {
  const lax = new Threadline({ url: server.url, validate: false });
  for (const [to, options] of [
    [await thread(), { validate: false }],
    [await thread(lax), {}],
  ] as const) {
    await to.run(options, (run) => run.append([ok, own, wrong]));
    expect(await types(to)).toEqual(["RUN_STARTED", "CUSTOM", "app.note", "TEXT_MESSAGE_CONTENT", "RUN_FINISHED"]);
  }
  const strict = await thread(lax);
  const refused = strict.run({ validate: true }, (run) => run.append(own));
  expect(isProblem(await caught(refused), "invalid-event")).toBe(true);
  lax.close();
});

test("a complete run is validated on request", async () => {
  const to = await thread();
  await to.putRun("one", [own]);
  const { threadId } = to;
  const started = { type: "RUN_STARTED", threadId, runId: "two" } as const;
  const refused = await caught(to.putRun("two", [started, own], { validate: true }));
  expect(refused).toMatchObject({ slug: "invalid-event", problem: { index: 1, path: "/type" } });
  expect((await to.runs()).runs.map(({ runId }) => runId)).toEqual(["one"]);
});

test("an attempt after a lost process is validated after what is stored", async () => {
  const to = await thread();
  const runId = "taken";
  const other = new Threadline({ url: server.url });
  const dead = other.thread(to.threadId).run({ runId }, async (run) => {
    await run.text({ messageId: "half" }).write("half");
    await run.flush();
    await new Promise((resolve) => run.signal.addEventListener("abort", resolve));
  });
  dead.catch(() => {});
  await expect.poll(() => types(to)).toContain("TEXT_MESSAGE_CONTENT");
  const run = await to.run({ runId }, (run) => run.text({ messageId: "half" }).write("whole"));
  expect(run.status).toBe("finished");
  expect((await to.messages()).messages.map(({ content }) => content)).toEqual(["whole"]);
  await expect(dead).rejects.toMatchObject({ slug: "run-fenced" });
  other.close();
});
