// An application's backend: the real CopilotKit runtime in a process of its own, with scripted agents. Its settings come in
// HOST; it prints the address that it listens on.

import { createServer } from "node:http";
import { ScriptedAgent } from "./agent.mjs";
import { load } from "./packages.mjs";

const { platform, webSocket, ...settings } = JSON.parse(process.env.HOST);
// Node 20 has no WebSocket, and the runner long-polls without one; Node 22 has.
if (webSocket) globalThis.WebSocket = (await load("ws")).WebSocket;
else delete globalThis.WebSocket;

const { CopilotKitIntelligence, CopilotRuntime, InMemoryAgentRunner } = await load("@copilotkit/runtime/v2");
const { createCopilotNodeListener } = await load("@copilotkit/runtime/v2/node");

const identifyUser = (request) => {
  const id = request.headers.get("x-user");
  if (!id) throw new Error("no user has signed in");
  return { id, name: id };
};
const runtime = new CopilotRuntime({
  agents: { scripted: new ScriptedAgent({ agentId: "scripted" }), other: new ScriptedAgent({ agentId: "other" }) },
  ...(platform
    ? { intelligence: new CopilotKitIntelligence(platform), identifyUser, generateThreadNames: false }
    : { runner: new InMemoryAgentRunner() }),
  ...settings,
});
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit", cors: true }));
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
