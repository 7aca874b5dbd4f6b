// Tests of the names that the server gives to AgentKit's threads.

import { createAgent } from "@inngest/agent-kit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { threadlineAgent } from "../../src/agentkit/index.js";
import { type Thread, Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { API_KEY, type Data, model, program, stateOf, useServer } from "./setup.js";

useServer();

let naming: Server;
beforeAll(async () => {
  const env = {
    THREADLINE_NAMING_BASE_URL: model.adapter.url!.replace(/\/chat.*/, ""),
    THREADLINE_NAMING_MODEL: "namer",
  };
  naming = await Server.start({ apiKey: API_KEY, env });
});
afterAll(() => naming?.end());

async function named(threadId: string, name: string): Promise<Thread> {
  const thread = new Threadline({ url: naming.url, apiKey: API_KEY, user: "ann" }).thread(threadId);
  await until(name, async () => (await thread.get()).name === name);
  return thread.get();
}

describe("the name of a thread grows", () => {
  test.each(["a network", "a network that streams", "an agent alone"])(
    "from the user's words to a model's name that knows the answer: %s",
    async (kind) => {
      const shown: string[] = [];
      const [threadId, states] = [`named: ${kind}`, [] as (string | null)[]];
      model.answer = async ({ messages }) => {
        const [system, user] = messages.map(({ content }) => String(content));
        if (!system!.startsWith("You name")) {
          const thread = await named(threadId, "Where is my parcel?");
          states.push(thread.nameSource);
          return { text: "On its way." };
        }
        shown.push(user!);
        return { text: "Parcel on Its Way" };
      };
      const { history, network } = program({ url: naming.url });
      const options = {
        state: stateOf(threadId),
        ...(kind.endsWith("streams") && { streaming: { publish: history.publish } }),
      };
      const solo = threadlineAgent<Data>(createAgent, { name: "solo", system: "s", model: model.adapter, history });
      await (kind.startsWith("an agent") ? solo : network).run("Hi! Where is my parcel?", options);
      const thread = await named(threadId, "Parcel on Its Way");
      expect([...states, thread.nameSource]).toEqual(["auto", "title"]);
      expect(shown.map((each) => JSON.parse(each) as unknown)).toEqual([
        { user: "Hi! Where is my parcel?", assistant: "On its way." },
      ]);
    },
  );
});
