// Builds UI messages with the real AI SDK. Reads one message a line, a JSON array of its chunks, and writes one line for each:
// what `ai` 6 and `ai` 7 make of it, `[message, message]`, or `{"error"}` for chunks that one of them refuses.

import { createInterface } from "node:readline";
import * as ai6 from "ai6";
import * as ai7 from "ai7";

/** The chunks as they come over HTTP, so that the schema of the SDK judges them. */
function streamOf(ai, chunks) {
  class Transport extends ai.DefaultChatTransport {
    read = (body) => this.processResponseStream(body);
  }
  const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + "data: [DONE]\n\n";
  return new Transport().read(new Response(text).body);
}

async function build(ai, chunks) {
  let built;
  for await (const message of ai.readUIMessageStream({ stream: streamOf(ai, chunks), onError: () => {} })) built = message;
  return built;
}

/** A message without what only the page that streams it has: raw arguments, and ids of reasoning. */
function plain(message) {
  const parts = message.parts.map(({ rawInput: _, ...part }) => {
    if (part.type === "reasoning") delete part.id;
    // The fold does not parse half arguments.
    if (part.state === "input-streaming") delete part.input;
    // The fold knows what was decided.
    if (part.approval) part.approval = { id: part.approval.id };
    return part;
  });
  return { ...message, parts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const chunks = JSON.parse(line);
  try {
    const built = [];
    // `error` chunks end what `readUIMessageStream` reads, as they end a page's stream.
    for (const ai of [ai6, ai7]) built.push(plain(await build(ai, chunks.filter(({ type }) => type !== "error"))));
    console.log(JSON.stringify(built));
  } catch (thrown) {
    console.log(JSON.stringify({ error: String(thrown?.message ?? thrown) }));
  }
}
