// Message ids that are assigned by the package, and the snippets that show how to produce a run.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  type AgUiEvent,
  ConfigError,
  type Message,
  type RunHandle,
  type RunOptions,
  Threadline,
  type ThreadRef,
} from "../src/index.js";
import { client, server, useServerAndClient } from "./harness/served.js";
import { log } from "./harness/writer.js";

useServerAndClient();

const thread = async () => client.thread((await client.threads.create()).threadId);
const shown = async (of: ThreadRef) => (await of.messages()).messages.map(({ role, content }) => [role, content]);

/** The code of a page that produces a run, as written there. */
function snippet(page: string): string {
  const text = readFileSync(new URL(`../../../${page}`, import.meta.url), "utf8");
  const [, code] = /^(?:const run = )?(await thread\.run\(.*?^\}\);)$/ms.exec(text) ?? [];
  if (code === undefined) throw new Error(`${page} shows no run`);
  return code;
}

test.each(["docs/typescript.md", "sdk/typescript/README.md"])(
  "the run that %s shows is a separate answer each time",
  async (page) => {
    const to = await thread();
    const AsyncFunction = (async () => {}).constructor as new (
      ...code: string[]
    ) => (...given: unknown[]) => Promise<void>;
    const run = new AsyncFunction("thread", "model", snippet(page));
    const asked: unknown[] = [];
    for (const words of [
      ["one ", "answer"],
      ["another ", "one"],
    ]) {
      await run(to, {
        stream: (messages: readonly Message[]) => (asked.push(messages.map(({ role }) => role)), words),
      });
    }
    const question = (await shown(to))[0]!;
    expect(question[0]).toBe("user");
    expect(await shown(to)).toEqual([question, ["assistant", "one answer"], question, ["assistant", "another one"]]);
    // The model was given the conversation each time.
    expect(asked).toEqual([["user"], ["user", "assistant", "user"]]);
  },
);

describe("text without a messageId", () => {
  const text = (delta: string, more = {}): AgUiEvent => ({ type: "TEXT_MESSAGE_CHUNK", delta, ...more });
  const custom = { type: "CUSTOM", name: "n", value: 0 } as const;

  async function said(body: (run: RunHandle) => unknown, options: RunOptions = {}): Promise<unknown[]> {
    const to = await thread();
    await to.run(options, body);
    return (await shown(to)).map(([, content]) => content);
  }

  test("is one message until another event comes in between", async () => {
    expect(await said((run) => ["a", "b", "c"].map((delta) => run.append(text(delta))))).toEqual(["abc"]);
    expect(await said((run) => run.append([text("a"), text("b"), custom, text("c"), text("d")]))).toEqual(["ab", "cd"]);
  });

  test("continues the previous message, whose id was given", async () => {
    const own = { messageId: "own" };
    expect(await said((run) => run.append([text("a", own), text("b"), custom, text("c"), text("d", own)]))).toEqual([
      "abd",
      "c",
    ]);
  });

  test("is a separate message for each subagent and for the agent", async () => {
    const [s, t] = [{ subagentRunId: "s" }, { subagentRunId: "t" }];
    const own = { ...s, messageId: "m" };
    expect(await said((run) => run.append([text("a"), text("x", own), text("y", s), text("b"), text("z", s)]))).toEqual(
      ["ab", "xyz"],
    );
    expect(
      await said((run) =>
        run.append([text("main "), text("sub ", s), text("other", t), text("more"), text("goes on", s)]),
      ),
    ).toEqual(["main more", "sub goes on", "other"]);
    const all: AgUiEvent = { type: "MESSAGES_SNAPSHOT", messages: [] };
    expect(await said((run) => run.append([text("a", s), { ...custom, ...s }, text("b", s), text("c", s)]))).toEqual([
      "a",
      "bc",
    ]);
    expect(await said((run) => run.append([text("gone", s), all, text("b", s)]))).toEqual(["b"]);
  });

  test("is another message if its role or name differs", async () => {
    const to = await thread();
    const [user, assistant] = [{ role: "user" }, { role: "assistant" }];
    await to.run({}, async (run) => {
      await run.append(text("Where is my parcel?", user));
      await run.append(text("On ", assistant));
      await run.append([text("its "), text("way.", assistant), text("I see.", { name: "bob" })]);
      await run.append([text(" Good.", { name: "bob" }), text(" Bye."), text("Thanks.", user), text("!", user)]);
    });
    expect(await shown(to)).toEqual([
      ["user", "Where is my parcel?"],
      ["assistant", "On its way."],
      ["assistant", "I see. Good. Bye."],
      ["user", "Thanks.!"],
    ]);
  });

  test("continues its message if its id is null, and after an invalid chunk", async () => {
    const none = { messageId: null };
    expect(await said((run) => run.append([text("a", none), text("b", none)]))).toEqual(["ab"]);
    const lost = text("lost", { role: "nobody" });
    const options = { validate: false };
    expect(await said((run) => run.append([text("a"), lost, text("b")]), options)).toEqual(["ab"]);
    expect(await said((run) => run.append([lost, text("b")]), options)).toEqual(["b"]);
  });

  test("is a message in a complete run, too", async () => {
    const to = await thread();
    const events = [text("put1"), text(" more"), custom, text("put2"), text("x", { subagentRunId: "s" })];
    await to.putRun("p1", events);
    await to.putRun("p1", events);
    await to.putRun("p2", [text("other")]);
    expect((await shown(to)).map(([, content]) => content)).toEqual(["put1 more", "put2", "x", "other"]);
    await expect(to.putRun("p3", text("no array") as never)).rejects.toBeInstanceOf(ConfigError);
  });

  test("has different ids in each run", async () => {
    const to = await thread();
    const events = [text("a"), custom, text("b"), text("c"), custom, text("d")];
    for (const runId of ["one", "other"]) await to.run({ runId }, (run) => run.append(events));
    expect((await shown(to)).map(([, content]) => content)).toEqual(["a", "bc", "d", "a", "bc", "d"]);
    const ids = (await log(server, to.threadId)).flatMap(({ event }) => event["messageId"] ?? []);
    expect(new Set(ids).size).toBe(6);
  });

  test("is a new message after a run was resumed", async () => {
    const to = await thread();
    const dead = new Threadline({ url: server.url });
    const body = async (run: RunHandle) => {
      // The CUSTOM event ends the message, so that it is kept.
      await run.append([text("before"), custom]);
      await run.flush();
      dead.close();
      await run.flush();
    };
    await expect(dead.thread(to.threadId).run({ runId: "r", leaseSeconds: 60 }, body)).rejects.toThrow("closed");
    await to.run({ runId: "r", onExisting: "continue" }, (run) => run.append(text("after")));
    expect((await shown(to)).map(([, content]) => content)).toEqual(["before", "after"]);
  });
});
