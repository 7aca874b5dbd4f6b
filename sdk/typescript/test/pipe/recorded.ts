// Streams of the AI SDK, made by the real packages, and those of OpenAI and AG-UI, with the conversation that each tells.

import * as ai7 from "ai";
import * as ai6 from "ai6";
import { MockLanguageModelV3 } from "ai6/test";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { z } from "zod";
import { AG_UI, CHAT, RESPONSE } from "./openai.js";

const SEARCH = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "0" },
  { type: "reasoning-delta", id: "0", delta: "I look it up." },
  { type: "reasoning-end", id: "0" },
  { type: "text-start", id: "1" },
  { type: "text-delta", id: "1", delta: "One " },
  { type: "text-delta", id: "1", delta: "moment." },
  { type: "text-end", id: "1" },
  { type: "tool-input-start", id: "call-1", toolName: "search" },
  { type: "tool-input-delta", id: "call-1", delta: '{"q":' },
  { type: "tool-input-delta", id: "call-1", delta: '"parcels"}' },
  { type: "tool-input-end", id: "call-1" },
  { type: "tool-call", toolCallId: "call-1", toolName: "search", input: '{"q":"parcels"}' },
  { type: "source", sourceType: "url", id: "s", url: "https://a.example", title: "A" },
];
const end = (unified: string) => {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  return { type: "finish", finishReason: { unified, raw: unified }, usage };
};

/** The items of a stream of the AI SDK, with a call that `execute` carries out. */
export async function recorded(
  version: 6 | 7,
  kind: "chunks" | "parts",
  execute: () => Promise<unknown>,
): Promise<object[]> {
  const steps = [
    [
      ...SEARCH,
      { type: "file", mediaType: "text/plain", data: version === 6 ? "eA==" : { type: "data", data: "eA==" } },
      end("tool-calls"),
    ],
    [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "Done." },
      { type: "text-end", id: "1" },
      end("stop"),
    ],
  ].map((chunks) => ({ stream: simulateReadableStream({ chunks }) }));
  const Model = version === 6 ? MockLanguageModelV3 : MockLanguageModelV4;
  const ai = (version === 6 ? ai6 : ai7) as typeof ai7;
  const result = ai.streamText({
    model: new Model({ doStream: steps as never }) as never,
    prompt: "parcels?",
    tools: { search: ai.tool({ inputSchema: z.object({ q: z.string() }), execute }) },
    stopWhen: ai.stepCountIs(3),
    onError: () => {},
  });
  const items: object[] = [];
  const stream = kind === "parts" ? result.fullStream : result.toUIMessageStream({ sendSources: true });
  for await (const item of stream) items.push(item);
  return items;
}

const REASONING = ["reasoning", "I look it up."];
const MOMENT = ["assistant", "One moment.", ["call-1", "search", '{"q":"parcels"}']];
const SAID = [REASONING, MOMENT, ["tool", '{"hits":2}'], ["assistant", "Done."]];
export const hits = async () => ({ hits: 2 });

export const KINDS: readonly [string, () => Promise<readonly object[]>, readonly unknown[]][] = [
  ["UI chunks of ai 6", () => recorded(6, "chunks", hits), SAID],
  ["UI chunks of ai 7", () => recorded(7, "chunks", hits), SAID],
  ["fullStream of ai 6", () => recorded(6, "parts", hits), SAID],
  ["fullStream of ai 7", () => recorded(7, "parts", hits), SAID],
  ["chunks of a chat completion", async () => CHAT, [REASONING, [...MOMENT, ["call-2", "weather", '{"city":"Bern"}']]]],
  [
    "events of a response",
    async () => RESPONSE,
    [
      ["reasoning", "I look it up.\n\nThen I say it."],
      ["assistant", "One moment.", ["call-1", "search", '{"q":"parcels"}']],
    ],
  ],
  ["events of AG-UI", async () => AG_UI, [REASONING, MOMENT]],
];
