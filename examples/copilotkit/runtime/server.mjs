// CopilotKit's runtime, with Threadline as its platform: only the three connection settings differ from CopilotKit's own
// platform.

import { createServer } from "node:http";
import { CopilotKitIntelligence, CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { Counter } from "./agent.mjs";

const threadline = process.env.THREADLINE_URL ?? "http://127.0.0.1:7420";

const runtime = new CopilotRuntime({
  agents: { counter: new Counter({ agentId: "counter" }) },
  intelligence: new CopilotKitIntelligence({
    apiUrl: threadline,
    // The address for browsers: wss://… behind TLS.
    wsUrl: threadline.replace(/^http/, "ws"),
    // A key of your project (threadline keys create backend); development mode accepts any key.
    apiKey: process.env.THREADLINE_KEY ?? "development",
  }),
  // Your own sign-in identifies the user, with a cookie or a token of the request. Threads belong to this id.
  identifyUser: (request) => {
    const id = request.headers.get("x-user") ?? "dev";
    return { id, name: id };
  },
});

const listener = createCopilotNodeListener({ runtime, basePath: "/api/copilotkit", cors: true });
const server = createServer(listener);
server.listen(Number(process.env.PORT ?? 3001), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
