// Accumulates streams of responses with OpenAI's own package. Reads one stream a line, its text as a JSON string, and writes one
// line for each: the responses that the package has at the end of the stream, `[response, …]`, or `{"error"}` for a stream that it
// refuses.

import { createInterface } from "node:readline";
import OpenAI from "openai";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";

/** The stream as the package requests it. */
function clientOf(text) {
  const headers = { "content-type": "text/event-stream" };
  const fetch = async () => new Response(text, { headers });
  return new OpenAI({ apiKey: "k", baseURL: "http://localhost/v1", fetch, maxRetries: 0 });
}

/** A response without what only the package adds. */
function plain({ output_text: _, output_parsed: __, ...response }) {
  for (const item of response.output) {
    delete item.parsed_arguments;
    for (const part of item.content ?? []) delete part.parsed;
  }
  return response;
}

for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  try {
    const request = { model: "agent", input: "hi" };
    const final = await clientOf(text).responses.stream(request).finalResponse();
    let snapshot;
    for await (const event of await clientOf(text).responses.create({ ...request, stream: true })) {
      snapshot = accumulateResponse(event, snapshot);
    }
    console.log(JSON.stringify([plain(final), plain(snapshot)]));
  } catch (thrown) {
    console.log(JSON.stringify({ error: String(thrown?.message ?? thrown) }));
  }
}
