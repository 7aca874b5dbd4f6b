// In the browser: how long it takes from a question to the first word of the answer, with CopilotKit's core.

import { CopilotKitCore } from "@copilotkit/core";

const cores = new Map();

async function coreOf(runtimeUrl, headers) {
  if (!cores.has(runtimeUrl)) cores.set(runtimeUrl, new CopilotKitCore({ runtimeUrl, headers }));
  const core = cores.get(runtimeUrl);
  while (core.runtimeConnectionStatus !== "connected") await new Promise((resolve) => setTimeout(resolve, 5));
  return core;
}

/** Milliseconds to the first word and to the end of the run, in a new thread. */
window.measure = async ({ runtimeUrl, headers, text }) => {
  const core = await coreOf(runtimeUrl, headers);
  const agent = core.getAgent("scripted").clone();
  agent.threadId = crypto.randomUUID();
  agent.setMessages([{ id: crypto.randomUUID(), role: "user", content: text }]);
  let first;
  agent.subscribe({ onTextMessageContentEvent: () => void (first ??= performance.now()) });
  const begin = performance.now();
  await core.runAgent({ agent });
  return { first: first - begin, end: performance.now() - begin };
};
