import { MockLanguageModelV3, simulateReadableStream } from "ai6/test";
import { vi } from "vitest";

vi.mock("ai", () => import("ai6"));

const { cases } = await import("./pipe.js");
cases("6", await import("ai"), (steps) => {
  const streams = steps.map((chunks) => ({ stream: simulateReadableStream({ chunks: [...chunks] }) }));
  return new MockLanguageModelV3({ doStream: streams as never }) as never;
});
