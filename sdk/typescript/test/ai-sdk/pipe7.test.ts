import * as ai from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { cases } from "./pipe.js";

cases("7", ai, (steps) => {
  const streams = steps.map((chunks) => ({ stream: simulateReadableStream({ chunks: [...chunks] }) }));
  return new MockLanguageModelV4({ doStream: streams as never });
});
