// An agent that asks before it does anything: its run ends with an interrupt, and its next run writes the answer. A request
// for suggestions returns one.

import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

function* answer({ threadId, runId, tools, resume }) {
  const ids = { threadId, runId };
  const say = (messageId, delta) => [
    { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
    { type: "TEXT_MESSAGE_CONTENT", messageId, delta },
    { type: "TEXT_MESSAGE_END", messageId },
  ];
  yield { type: "RUN_STARTED", ...ids };
  if (tools?.some(({ name }) => name === "copilotkitSuggest")) {
    const toolCallId = `${runId}-suggest`;
    const suggestions = [{ title: "More", message: "Tell me more" }];
    yield { type: "TOOL_CALL_START", toolCallId, toolCallName: "copilotkitSuggest" };
    yield { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify({ suggestions }) };
    yield { type: "TOOL_CALL_END", toolCallId };
    yield { type: "RUN_FINISHED", ...ids };
  } else if (resume?.length) {
    yield* say(`${runId}-text`, `you said ${resume[0].payload}`);
    yield { type: "RUN_FINISHED", ...ids };
  } else {
    yield* say(`${runId}-text`, "may I?");
    const interrupts = [{ id: `${runId}-may`, reason: "confirmation", message: "may I?" }];
    yield { type: "RUN_FINISHED", ...ids, outcome: { type: "interrupt", interrupts } };
  }
}

/** Serves the agent on a free port; returns its server and address. */
export async function serveAsking() {
  const server = createServer(async (request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of answer(JSON.parse(await text(request)))) response.write(`data: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}
