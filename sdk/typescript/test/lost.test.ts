// Producers at a server that has lost commits: its database is replaced by an earlier copy.

import { expect, test } from "vitest";
import { type AgUiEvent, ClosedError, isProblem, type Run, type RunHandle, Threadline } from "../src/index.js";
import { SENT_SIZE } from "../src/limits.js";
import { caught } from "./harness/caught.js";
import { client, server, useServerAndClient } from "./harness/served.js";
import { until } from "./harness/until.js";
import { log } from "./harness/writer.js";

useServerAndClient();

const options = { runId: "run", leaseSeconds: 60 };
const custom = (value: unknown): AgUiEvent => ({ type: "CUSTOM", name: "n", value });
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);
const thread = async () => client.thread((await client.threads.create()).threadId);
const values = async (threadId: string) =>
  (await log(server, threadId)).filter(({ event }) => event.type === "CUSTOM").map(({ event }) => event["value"]);

async function append(run: RunHandle, from: number, to: number): Promise<void> {
  for (const index of upTo(to).slice(from)) await run.append(custom(index));
  await run.flush();
}

test("what the server has lost of a run is sent again before the next event", async () => {
  const it = await thread();
  const run = await it.run(options, async (run) => {
    await append(run, 0, 50);
    await server.save();
    await append(run, 50, 5_000);
    const { epoch } = run;
    await server.lose();
    await append(run, 5_000, 5_010);
    expect(run.epoch).not.toBe(epoch);
  });
  expect(run).toMatchObject({ status: "finished", producerSeq: 5_012 });
  expect(await values(it.threadId)).toEqual(upTo(5_010));
});

test("a run whose last events are lost does not end without them", async () => {
  for (const end of [[], [{ type: "RUN_FINISHED", threadId: "t", runId: "run" } as const]]) {
    const it = await thread();
    const run = await it.run(options, async (run) => {
      await append(run, 0, 10);
      await server.save();
      await append(run, 10, 20);
      await run.append(end);
      await run.flush();
      await server.lose();
    });
    expect(run).toMatchObject({ status: "finished", producerSeq: 22 });
    expect(await values(it.threadId)).toEqual(upTo(20));
  }
});

test("a producer without further events finds a loss by its heartbeats", async () => {
  for (const isWhole of [false, true]) {
    const it = await thread();
    if (isWhole) await server.save();
    // A heartbeat every three seconds; a machine that stops for six does not end the lease.
    await it.run({ ...options, leaseSeconds: 9 }, async (run) => {
      await append(run, 0, 10);
      if (!isWhole) await server.save();
      await append(run, 10, 20);
      await server.lose();
      await until("the events", async () => (await values(it.threadId)).length === 20);
    });
    expect(await values(it.threadId)).toEqual(upTo(20));
  }
});

test("a run that is lost as a whole is started again under its id", async () => {
  const it = await thread();
  await it.run({ runId: "first" }, (run) => run.append(custom("kept")));
  await server.save();
  await it.run({ runId: "second" }, (run) => run.append(custom("lost")));
  const run = await it.run(options, async (run) => {
    await append(run, 0, 20);
    const { cursor } = run;
    await server.lose();
    await append(run, 20, 30);
    // The run before it is lost, and its producer gone.
    expect(run.cursor).toBeLessThan(cursor);
  });
  expect(run).toMatchObject({ runId: "run", status: "finished" });
  expect(await values(it.threadId)).toEqual(["kept", ...upTo(30)]);
});

test("a producer whose run was lost takes it from nobody who has begun it again", async () => {
  const it = await thread();
  await server.save();
  const error = await caught(
    it.run(options, async (lost) => {
      await append(lost, 0, 3);
      await server.lose();
      const run = await it.run(options, async (again) => {
        expect(again.resumed).toBe(false);
        await append(again, 100, 103);
        expect(isProblem(await caught(append(lost, 3, 4)), "run-fenced")).toBe(true);
        await append(again, 103, 105);
      });
      expect(run.status).toBe("finished");
    }),
  );
  expect(error).toMatchObject({ slug: "run-fenced" });
  expect(await values(it.threadId)).toEqual([100, 101, 102, 103, 104]);
});

test("a producer that begins its lost run again takes it from nobody who has begun it meanwhile", async () => {
  const it = await thread();
  await server.save();
  let starts = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  let other: Promise<Run> | undefined;
  const beginOther = () =>
    new Promise<void>((resolve) => {
      other = it.run(options, async (again) => {
        await append(again, 100, 103);
        resolve();
        await finished;
        await append(again, 103, 105);
      });
    });
  const racing = new Threadline({
    url: server.url,
    fetch: async (input, init) => {
      const isStart = init?.method === "POST" && String(input).split("?")[0]!.endsWith("/runs");
      // The request that begins the run again is on its way when the other process begins it.
      if (isStart && (starts += 1) === 2) await beginOther();
      return fetch(input, init);
    },
  });
  const error = await caught(
    racing.thread(it.threadId).run(options, async (lost) => {
      await append(lost, 0, 3);
      await server.lose();
      await append(lost, 3, 4);
    }),
  );
  finish();
  expect(isProblem(error, "run-not-found")).toBe(true);
  expect((await other)!.status).toBe("finished");
  expect(await values(it.threadId)).toEqual([100, 101, 102, 103, 104]);
  racing.close();
});

test("a run of a thread that was deleted and created again is not started again", async () => {
  const it = await thread();
  const error = await caught(
    it.run(options, async (run) => {
      await append(run, 0, 3);
      await server.request("DELETE", `/v1/threads/${it.threadId}`);
      await server.request("POST", "/v1/threads", { body: { threadId: it.threadId } });
      await append(run, 3, 4);
    }),
  );
  expect(isProblem(error, "run-not-found")).toBe(true);
  expect(await log(server, it.threadId)).toEqual([]);
});

test("a run fails if its producer does not keep the lost events any more", async () => {
  const it = await thread();
  const large = "x".repeat(SENT_SIZE / 8);
  const error = await caught(
    it.run(options, async (run) => {
      await append(run, 0, 10);
      await server.save();
      for (let index = 0; index < 16; index += 1) {
        await run.append(custom(large));
        await run.flush();
      }
      await server.lose();
      await append(run, 10, 11);
    }),
  );
  expect(error).toBeInstanceOf(ClosedError);
  expect(String(error)).toContain("has lost events of the run run from producerSeq 12 on");
  expect(await it.runRecord("run")).toMatchObject({ status: "error", errorCode: "producer-failed" });
});
