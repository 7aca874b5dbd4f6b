import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type AgUiEvent,
  ClosedError,
  ConfigError,
  isProblem,
  type RunHandle,
  StopRequested,
  Threadline,
  type Run,
} from "../src/index.js";
import { PENDING_EVENTS } from "../src/limits.js";
import { caught } from "./harness/caught.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";
import { log } from "./harness/writer.js";

let server: Server;
let client: Threadline;
let made = 0;

beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(() => server.end());

async function thread(through: Threadline = client) {
  const { threadId } = await client.threads.create({ threadId: `produced-${(made += 1)}` });
  return through.thread(threadId);
}

const custom = (index: number): AgUiEvent => ({ type: "CUSTOM", name: "n", value: index });
const values = async (threadId: string) =>
  (await log(server, threadId)).filter(({ event }) => event.type === "CUSTOM").map(({ event }) => event["value"]);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);
const aborted = (run: RunHandle) =>
  new Promise<never>((_, reject) => {
    if (run.signal.aborted) reject(run.signal.reason);
    run.signal.addEventListener("abort", () => reject(run.signal.reason));
  });

test("appended events are in the log, in order, with few requests", async () => {
  const proxy = await Proxy.start(server);
  const it = await thread(new Threadline({ url: proxy.url }));
  const run = await it.run({}, async (run) => {
    for (let index = 0; index < 5_000; index += 1) await run.append(custom(index));
    await run.flush();
    // Durable at this point, while the run continues.
    expect(await values(it.threadId)).toEqual(upTo(5_000));
    await run.append([custom(5_000), custom(5_001)]);
  });
  expect(run.status).toBe("finished");
  expect(await values(it.threadId)).toEqual(upTo(5_002));
  expect((await log(server, it.threadId)).at(-1)!.event.type).toBe("RUN_FINISHED");
  expect(proxy.requests.filter((line) => line.includes("/events")).length).toBeLessThan(60);
  proxy.end();
});

test("a run may end with its own terminal event", async () => {
  const it = await thread();
  const run = await it.run({}, (run) =>
    run.append({ type: "RUN_FINISHED", threadId: it.threadId, runId: run.runId, result: 7 }),
  );
  expect(run.status).toBe("finished");
  const events = await log(server, it.threadId);
  expect(events.filter(({ event }) => event.type === "RUN_FINISHED").map(({ event }) => event["result"])).toEqual([7]);
});

test("an error of the body ends the run as failed, and is rethrown", async () => {
  const it = await thread();
  const error = new Error("the model is away");
  expect(
    await caught(
      it.run({ runId: "bad" }, async (run) => {
        await run.append(custom(0));
        throw error;
      }),
    ),
  ).toBe(error);
  expect(await it.runRecord("bad")).toMatchObject({
    status: "error",
    errorCode: "producer-failed",
    errorMessage: error.message,
  });
  // No run is left that would block the thread.
  expect((await it.run({}, () => {})).status).not.toBe("error");
});

test("an ended run is not repeated; while another run is active, a run is refused immediately", async () => {
  const it = await thread();
  let times = 0;
  const once = () =>
    it.run({ runId: "same" }, async (run) => {
      times += 1;
      await run.append(custom(times));
    });
  const first = await once();
  expect(await once()).toEqual(first);
  expect(times).toBe(1);
  await it.run({ runId: "holder" }, async () => {
    const error = await caught(it.run({}, () => {}));
    expect(isProblem(error, "run-active") && error.problem["run"]).toMatchObject({ runId: "holder" });
  });
});

test("lost responses, cut connections and a killed server neither lose nor duplicate events", async () => {
  const proxy = await Proxy.start(server);
  const it = await thread(new Threadline({ url: proxy.url }));
  const run = await it.run({ leaseSeconds: 60 }, async (run) => {
    for (let index = 0; index < 400; index += 1) {
      await run.append(custom(index));
      if (index % 40 === 0) proxy.cut();
      if (index === 150) await server.restart();
      if (index % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  });
  expect(run.status).toBe("finished");
  expect(await values(it.threadId)).toEqual(upTo(400));
  proxy.end();
});

test("events appended before an error of the body are stored", async () => {
  const it = await thread();
  await caught(
    it.run({}, async (run) => {
      for (let index = 0; index < 20; index += 1) await run.append(custom(index));
      throw new Error("the model is away");
    }),
  );
  expect(await values(it.threadId)).toEqual(upTo(20));
});

test("without awaiting, the end of the run reports the error, and no event is lost silently", async () => {
  const it = await thread();
  const error = await caught(
    it.run({}, (run) => upTo(3 * PENDING_EVENTS).forEach((index) => void run.append(custom(index)))),
  );
  expect(error).toBeInstanceOf(ConfigError);
  const run = await it.run({ runId: "few" }, (run) => upTo(5_000).forEach((index) => void run.append(custom(index))));
  expect(run).toMatchObject({ status: "finished", producerSeq: 5_002 });
});

test("events may have custom types", async () => {
  interface Note {
    type: "app.note";
    text: string;
  }
  const note: Note = { type: "app.note", text: "é" };
  const it = await thread();
  await it.run({ validate: false }, (run) => run.append([note, { type: "CUSTOM", name: "n", value: 0 }]));
  await it.putRun("whole", [note]);
  const notes = (await log(server, it.threadId)).filter(({ event }) => event.type === "app.note");
  expect(notes.map(({ event }) => event)).toEqual([note, note]);
});

test("an invalid event fails the run, even if its error is ignored", async () => {
  const circular: Record<string, unknown> = { type: "CUSTOM" };
  circular["self"] = circular;
  for (const wrong of [{}, null, circular, { type: "CUSTOM", value: 1n }]) {
    const it = await thread();
    const error = await caught(
      it.run({}, async (run) => {
        await run.append(custom(0));
        void run.append(wrong as AgUiEvent);
        await run.append(custom(1));
      }),
    );
    expect(error).toBeInstanceOf(ConfigError);
    expect(await values(it.threadId)).toEqual([0, 1]);
    expect((await it.runs()).runs[0]!.status).toBe("error");
  }
});

test("an append after the end rejects, without an unhandled rejection if it is ignored", async () => {
  const it = await thread();
  const late: Promise<void>[] = [];
  const run = await it.run({}, (run) => void setTimeout(() => late.push(run.append(custom(0))), 50));
  await until("the append", () => late.length > 0);
  expect(run.status).toBe("finished");
  expect(await caught(late[0]!)).toBeInstanceOf(ClosedError);
});

test("a body that continues after its terminal event blocks no other run", async () => {
  const it = await thread();
  const run = await it.run({ leaseSeconds: 1 }, async (run) => {
    await run.append({ type: "RUN_FINISHED", threadId: it.threadId, runId: run.runId });
    expect(await caught(run.append(custom(1)))).toMatchObject({
      message: expect.stringContaining("ended") as string,
    });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
  });
  expect(run.status).toBe("finished");
});

test("a run that is aborted while it starts blocks no other run", async () => {
  const proxy = await Proxy.start(server);
  const it = await thread(new Threadline({ url: proxy.url }));
  const abort = new AbortController();
  // The request gets through, but its response takes too long.
  proxy.bytesPerSecond = 1;
  const run = caught(it.run({ signal: abort.signal, leaseSeconds: 60 }, () => expect.unreachable()));
  const direct = client.thread(it.threadId);
  await until("the run", async () => (await direct.get()).activeRun);
  abort.abort(new Error("enough"));
  expect(await run).toMatchObject({ message: "enough" });
  proxy.bytesPerSecond = Infinity;
  await until("its end", async () => (await direct.get()).activeRun === null);
  proxy.end();
});

// Each test waits for the server, which grants a body some time.
describe.concurrent("stop", () => {
  test("an error of a body after that counts as its way to stop", async () => {
    const it = await thread();
    const run = await it.run({}, async (run) => {
      await it.stop(run.runId);
      await aborted(run).catch(() => {});
      throw new Error("Request was aborted.");
    });
    expect(run.status).toBe("stopped");
  });

  test("a slow body receives the run as ended by the server", async () => {
    const it = await thread();
    const run = await it.run({}, async (run) => {
      await it.stop(run.runId);
      await aborted(run).catch(() => {});
      await until("the end", async () => ((await it.runRecord(run.runId)) as Run).endedAt !== null);
      await run.append(custom(1));
    });
    expect(run.status).toBe("stopped");
  });

  test("aborts the signal; a body that throws then is not a failure", async () => {
    const it = await thread();
    const run = it.run({ runId: "stopped" }, async (run) => {
      await run.append(custom(0));
      await aborted(run);
    });
    await until("the run", async () => (await it.runs()).runs.length === 1);
    await it.stop("stopped");
    expect((await run).status).toBe("stopped");
    expect(await values(it.threadId)).toEqual([0]);
  });

  test("is reported by the next append of a busy producer", async () => {
    const it = await thread();
    let reason: unknown;
    const run = await it.run({}, async (run) => {
      await it.stop(run.runId);
      for (let index = 0; !run.signal.aborted; index += 1) {
        await run.append(custom(index));
        await run.flush();
      }
      reason = run.signal.reason;
    });
    expect(reason).toBeInstanceOf(StopRequested);
    expect(run.status).toBe("stopped");
  });

  test("can be requested with the caller's signal", async () => {
    const it = await thread();
    const abort = new AbortController();
    const run = it.run({ signal: abort.signal }, (run) => {
      abort.abort();
      return aborted(run);
    });
    expect((await run).status).toBe("stopped");
  });
});

test("a silent producer keeps its lease, and a fenced one is notified", async () => {
  const it = await thread();
  const run = await it
    .run({ leaseSeconds: 3 }, async (run) => {
      const first = ((await it.runRecord(run.runId)) as Run).leaseUntil!;
      await until("a renewal", async () => ((await it.runRecord(run.runId)) as Run).leaseUntil! > first);
      await it.delete();
      await aborted(run);
    })
    .catch((error: unknown) => error);
  expect(isProblem(run, "thread-not-found") || isProblem(run, "run-not-found") || isProblem(run, "run-fenced")).toBe(
    true,
  );
});

test("the refusal of an event is reported by flush, by the next append and by the end", async () => {
  const it = await thread();
  const seen: unknown[] = [];
  const error = await caught(
    it.run({}, async (run) => {
      // Deeper than an event may be nested.
      const deep = JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`) as unknown;
      void run.append({ type: "CUSTOM", name: "deep", value: deep });
      seen.push(await caught(run.flush()), await caught(run.append(custom(1))), run.signal.reason);
      throw seen[0];
    }),
  );
  expect(isProblem(error, "invalid-event")).toBe(true);
  expect(seen.every((each) => each === error)).toBe(true);
});

test("a producer that is faster than the network is slowed down", async () => {
  const proxy = await Proxy.start(server);
  const it = await thread(new Threadline({ url: proxy.url }));
  const ended = it.run({ leaseSeconds: 60 }, async (run) => {
    proxy.stall();
    let taken = 0;
    const filling = (async () => {
      for (; taken < PENDING_EVENTS + 500; taken += 1) await run.append(custom(taken));
    })();
    await until("a full queue", () => taken === PENDING_EVENTS - 1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(taken).toBe(PENDING_EVENTS - 1);
    // A producer that never awaits is refused before memory runs out.
    const rest = upTo(2 * PENDING_EVENTS).map((index) => run.append(custom(index)).catch((error: unknown) => error));
    proxy.resume();
    expect((await Promise.all(rest)).some((each) => each instanceof ConfigError)).toBe(true);
    await filling;
  });
  expect(await caught(ended)).toBeInstanceOf(ConfigError);
  proxy.end();
});
