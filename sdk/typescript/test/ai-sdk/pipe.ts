// Cases of backends that call the model themselves and pipe its stream, which both versions of the AI SDK pass.

import type { UIMessage, UIMessageChunk } from "ai";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { toUIMessages } from "../../src/ai-sdk/index.js";
import { Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { type Event, log } from "../harness/writer.js";
import type { Ai } from "./chat.js";

type Model = Parameters<Ai["streamText"]>[0]["model"];
type Part = { readonly type: string; readonly [member: string]: unknown };

/** A model that streams these parts, one list for each step. */
export type MakeModel = (steps: readonly (readonly Part[])[]) => Model;

const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const finish = (unified: string): Part => ({ type: "finish", finishReason: { unified, raw: unified }, usage: USAGE });

export function cases(version: string, ai: Ai, modelOf: MakeModel): void {
  describe(`ai ${version}`, () => {
    let server: Server;
    beforeAll(async () => {
      server = await Server.start();
    });
    afterAll(() => server?.end());

    const clients: Threadline[] = [];
    afterEach(() => {
      for (const client of clients.splice(0)) client.close();
    });

    /** A new thread, over a client of its own. */
    async function made() {
      const client = new Threadline({ url: server.url });
      clients.push(client);
      const { threadId } = await client.threads.create();
      return { client, thread: client.thread(threadId) };
    }

    const streamOf = (chunks: readonly UIMessageChunk[]): ReadableStream<UIMessageChunk> =>
      new ReadableStream({
        start(controller) {
          chunks.forEach((chunk) => controller.enqueue(chunk));
          controller.close();
        },
      });

    /** Writes chunks into a new thread. Returns the events without those of the run itself, and the messages of the chat. */
    async function piped(chunks: readonly UIMessageChunk[]) {
      const { client, thread } = await made();
      const run = await thread.run({}, (run) => run.pipe(streamOf(chunks)));
      expect(run.status).toBe("finished");
      const { messages } = await toUIMessages(client, "demo", thread.threadId);
      return { events: await eventsOf(thread.threadId), messages };
    }

    async function eventsOf(threadId: string): Promise<Event[]> {
      const events = (await log(server, threadId)).map(({ event }) => event);
      return events.filter(({ type }) => type !== "RUN_STARTED" && type !== "RUN_FINISHED");
    }

    const STREAMS = ["toUIMessageStream", "fullStream"] as const;
    test.each(STREAMS)(
      "%s with reasoning, text, and a tool is the message that the SDK itself builds",
      async (stream) => {
        const { client, thread } = await made();
        const model = modelOf([
          [
            { type: "reasoning-start", id: "0" },
            { type: "reasoning-delta", id: "0", delta: "I look " },
            { type: "reasoning-delta", id: "0", delta: "it up." },
            { type: "reasoning-end", id: "0" },
            { type: "text-start", id: "1" },
            { type: "text-delta", id: "1", delta: "One moment." },
            { type: "text-end", id: "1" },
            { type: "tool-input-start", id: "call-1", toolName: "search" },
            { type: "tool-input-delta", id: "call-1", delta: '{"q":' },
            { type: "tool-input-delta", id: "call-1", delta: '"parcels"}' },
            { type: "tool-input-end", id: "call-1" },
            { type: "tool-call", toolCallId: "call-1", toolName: "search", input: '{"q":"parcels"}' },
            finish("tool-calls"),
          ],
          [
            // The ids of a model begin again in each step.
            { type: "text-start", id: "1" },
            { type: "text-delta", id: "1", delta: "Two " },
            { type: "text-delta", id: "1", delta: "hits." },
            { type: "text-end", id: "1" },
            finish("stop"),
          ],
        ]);
        let built: UIMessage | undefined;
        const run = await thread.run(
          { agentId: "writer", messages: [{ id: "u1", role: "user", content: "parcels?" }] },
          async (run) => {
            const result = ai.streamText({
              model,
              prompt: "parcels?",
              tools: {
                search: ai.tool({ inputSchema: z.object({ q: z.string() }), execute: async () => ({ hits: [1, 2] }) }),
              },
              stopWhen: ai.stepCountIs(3),
              abortSignal: run.signal,
            });
            const other = result.toUIMessageStream();
            const reading = (async () => {
              for await (const message of ai.readUIMessageStream({ stream: other })) built = message;
            })();
            await run.pipe(stream === "fullStream" ? result.fullStream : result.toUIMessageStream());
            await reading;
          },
        );
        expect(run.status).toBe("finished");
        const { messages } = await toUIMessages(client, "demo", thread.threadId);
        expect(messages).toHaveLength(2);
        expect(messages[0]).toMatchObject({ id: "u1", role: "user" });
        expect(messages[1]!.id).toBe(run.runId);
        expect(plain(messages[1]!)).toEqual(plain(built!));
        // The conversation is one that a model takes: the call belongs to its text, and has its result.
        const { messages: stored } = await thread.messages();
        expect(stored.map(({ role, content }) => [role, content])).toEqual([
          ["user", "parcels?"],
          ["reasoning", "I look it up."],
          ["assistant", "One moment."],
          ["tool", '{"hits":[1,2]}'],
          ["assistant", "Two hits."],
        ]);
        expect(stored[2]).toMatchObject({
          toolCalls: [{ id: "call-1", function: { name: "search", arguments: '{"q":"parcels"}' } }],
        });
      },
    );

    test("texts of two runs with the same id are two messages", async () => {
      const { thread } = await made();
      for (const delta of ["one", "two"]) {
        const chunks: UIMessageChunk[] = [
          { type: "text-start", id: "0" },
          { type: "text-delta", id: "0", delta },
          { type: "text-end", id: "0" },
        ];
        await thread.run({}, (run) => run.pipe(streamOf(chunks)));
      }
      expect((await thread.messages()).messages.map(({ content }) => content)).toEqual(["one", "two"]);
    });

    test("data parts, files and what is not known", async () => {
      const { events, messages } = await piped([
        { type: "start", messageId: "m", messageMetadata: { model: "small" } },
        { type: "data-chart", id: "c", data: { points: [1, 2] } },
        { type: "data-threadline.mine", data: 1 },
        { type: "file", url: "data:text/plain,x", mediaType: "text/plain" },
        { type: "of-the-future", more: [1] } as unknown as UIMessageChunk,
        // One of each type is enough to see what was left out.
        { type: "of-the-future", more: [2] } as unknown as UIMessageChunk,
        { type: "finish" },
      ]);
      expect(events).toEqual([
        { type: "CUSTOM", name: "message-metadata", value: { model: "small" } },
        { type: "CUSTOM", name: "chart", value: { points: [1, 2] } },
        { type: "CUSTOM", name: "unmapped", value: { type: "data-threadline.mine", data: 1 } },
        {
          type: "CUSTOM",
          name: "file",
          value: { type: "file", url: "data:text/plain,x", mediaType: "text/plain" },
        },
        { type: "CUSTOM", name: "unmapped", value: { type: "of-the-future", more: [1] } },
      ]);
      expect(messages[0]!.parts).toContainEqual({ type: "data-chart", data: { points: [1, 2] } });
    });

    test("calls: input without pieces, of text, failed, denied, with preliminary outputs", async () => {
      const { events } = await piped([
        { type: "tool-input-available", toolCallId: "whole", toolName: "a", input: { x: 1 } },
        { type: "tool-output-available", toolCallId: "whole", output: "half", preliminary: true },
        { type: "tool-output-available", toolCallId: "whole", output: "whole" },
        { type: "tool-input-start", toolCallId: "text", toolName: "b", inputEncoding: "text" },
        { type: "tool-input-delta", toolCallId: "text", inputTextDelta: "not JSON" },
        { type: "tool-input-available", toolCallId: "text", toolName: "b", input: "not JSON" },
        { type: "tool-output-error", toolCallId: "text", errorText: "down" },
        { type: "tool-input-error", toolCallId: "bad", toolName: "c", input: "{", errorText: "no JSON" },
        { type: "tool-input-available", toolCallId: "denied", toolName: "d", input: undefined },
        { type: "tool-output-denied", toolCallId: "denied" },
        { type: "text-delta", id: "t", delta: "without a start" },
        { type: "text-delta", id: "t", delta: "" },
        { type: "text-end", id: "t" },
      ]);
      const known = events.map(({ messageId: _, role: __, ...event }) => event);
      const of = (call: string) =>
        known
          .filter(({ toolCallId }) => toolCallId === call)
          .map(({ type, delta, content }) => [type, delta ?? content]);
      expect(of("whole")).toEqual([
        ["TOOL_CALL_START", undefined],
        ["TOOL_CALL_ARGS", '{"x":1}'],
        ["TOOL_CALL_END", undefined],
        ["TOOL_CALL_RESULT", "whole"],
      ]);
      expect(of("text").slice(1)).toEqual([
        ["TOOL_CALL_ARGS", '"not JSON"'],
        ["TOOL_CALL_END", undefined],
        ["TOOL_CALL_RESULT", '{"error":"down"}'],
      ]);
      expect(of("bad").slice(1)).toEqual([
        ["TOOL_CALL_ARGS", '"{"'],
        ["TOOL_CALL_END", undefined],
        ["TOOL_CALL_RESULT", '{"error":"no JSON"}'],
      ]);
      expect(of("denied").slice(1)).toEqual([
        ["TOOL_CALL_ARGS", "{}"],
        ["TOOL_CALL_END", undefined],
        ["TOOL_CALL_RESULT", '{"error":"The call was denied."}'],
      ]);
      expect(known.slice(-3).map(({ type }) => type)).toEqual([
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
      ]);
    });

    test("a request for approval is an interrupt, which a later run answers", async () => {
      const { client, thread } = await made();
      await thread.run({}, (run) =>
        run.pipe(
          streamOf([
            { type: "tool-input-available", toolCallId: "m1", toolName: "mail", input: { to: "ann" } },
            { type: "tool-approval-request", approvalId: "i1", toolCallId: "m1" },
            { type: "finish", finishReason: "tool-calls" },
          ]),
        ),
      );
      expect((await thread.get()).openInterrupts).toBe(1);
      const part = async () =>
        (await toUIMessages(client, "demo", thread.threadId)).messages[0]!.parts.find(
          ({ type }) => type === "dynamic-tool",
        );
      expect(await part()).toMatchObject({ state: "approval-requested", approval: { id: "i1" } });
      await thread.run(
        { resume: [{ interruptId: "i1", status: "resolved", payload: { approved: true } }] },
        async (run) => {
          await run.pipe(streamOf([{ type: "tool-output-available", toolCallId: "m1", output: { sent: true } }]));
        },
      );
      expect((await thread.get()).openInterrupts).toBe(0);
      expect(await part()).toMatchObject({ state: "output-available", output: { sent: true } });
    });

    test("an error ends the run with its text", async () => {
      const { thread } = await made();
      const failing = modelOf([
        [
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "half" },
          { type: "error", error: new Error("overloaded") },
        ],
      ]);
      const running = thread.run({}, (run) => {
        const result = ai.streamText({ model: failing, prompt: "x", onError: () => {}, abortSignal: run.signal });
        return run.pipe(result.toUIMessageStream({ onError: (error) => (error as Error).message }));
      });
      await expect(running).rejects.toThrow("overloaded");
      const events = await eventsOf(thread.threadId);
      expect(events.at(-1)).toMatchObject({ type: "RUN_ERROR", message: "overloaded" });
      expect(events).toContainEqual(expect.objectContaining({ type: "TEXT_MESSAGE_CONTENT", delta: "half" }));
      // An abort that is no stop of the run is a failure.
      const aborted = thread.run({}, (run) => run.pipe(streamOf([{ type: "abort", reason: "too slow" }])));
      await expect(aborted).rejects.toThrow("the stream was aborted: too slow");
    });

    test("a stop of the run cancels the stream, also one that is silent", async () => {
      for (const isIterable of [false, true]) {
        const { thread } = await made();
        let cancelled = false;
        const silent = new ReadableStream<UIMessageChunk>({
          start: (controller) => controller.enqueue({ type: "text-delta", id: "t", delta: "half" }),
          cancel: () => void (cancelled = true),
        });
        async function* iterable() {
          try {
            yield { type: "text-delta" as const, id: "t", delta: "half" };
            yield { type: "text-delta" as const, id: "t", delta: " more" };
            await new Promise(() => {});
          } finally {
            cancelled = true;
          }
        }
        const running = thread.run({}, (run) => run.pipe(isIterable ? iterable() : silent));
        const active = await until("the text", async () => {
          const { activeRun } = await thread.get();
          return activeRun && activeRun.producerSeq > 0 ? activeRun : undefined;
        });
        await thread.stop(active!.runId);
        expect((await running).status).toBe("stopped");
        // A generator that waits cannot be cancelled.
        if (!isIterable) expect(cancelled).toBe(true);
      }
    });
  });
}

/** A message without what AG-UI does not have: ids of the stream, metadata of providers, tools as types of parts. */
function plain({ parts }: UIMessage): unknown[] {
  return parts.map((part) => {
    if (part.type === "text" || part.type === "reasoning") return [part.type, part.text, part.state];
    if (part.type === "tool-search" || part.type === "dynamic-tool") {
      const { toolCallId, state, input, output } = part as {
        toolCallId: string;
        state: string;
        input: unknown;
        output?: unknown;
      };
      return ["tool", toolCallId, state, input, output];
    }
    return part;
  });
}
