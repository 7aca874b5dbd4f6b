// A mock model with OpenAI's chat completions API: calls a tool once, and repeats the user's message. Its responses are
// delayed, like those of a real model.

import { createServer } from "node:http";
import { once } from "node:events";

const THINKS_MS = Number(process.env.MOCK_THINKS_MS ?? 1_200);

/** The model's response to a list of messages. */
function answer({ messages, tools = [] }) {
  const [system] = messages;
  const said = messages.filter(({ role }) => role === "user").map(({ content }) => content);
  // AgentKit puts new messages before the earlier ones, and repeats them there if the server has the history.
  const [asked = ""] = said;
  const turns = new Set(said).size;
  if (system.content.startsWith("You look things up") && tools.length > 0) {
    const call = { id: `call_${crypto.randomUUID()}`, type: "function" };
    return { tool_calls: [{ ...call, function: { name: tools[0].function.name, arguments: JSON.stringify({ topic: asked }) } }] };
  }
  const found = messages.findLast(({ role }) => role === "tool")?.content ?? "nothing";
  const words = [`You said: ${asked}.`, `I know of ${turns} message${turns === 1 ? "" : "s"} of yours in this thread.`];
  return { content: [...words, `What was looked up: ${found}`].join(" ") };
}

/** Starts the model; returns its address. */
export async function startMockModel() {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request.setEncoding("utf8")) body += piece;
    await new Promise((resolve) => setTimeout(resolve, THINKS_MS));
    const message = { role: "assistant", content: null, ...answer(JSON.parse(body)) };
    const choice = { index: 0, message, finish_reason: message.tool_calls ? "tool_calls" : "stop" };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ id: "mock", object: "chat.completion", model: "mock", choices: [choice] }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${server.address().port}/v1/`;
}
