// The code of README.md, docs/tour.md, docs/ag-ui.md, docs/copilotkit.md, docs/queue.md, docs/recipes.md, and parts of
// docs/typescript.md and docs/ai-sdk.md in JavaScript and TypeScript: type-checked against the published packages, and run against the server where no page is required.

import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WS from "ws";
import { Threadline } from "../src/index.js";
import { AG_UI, blocks, complaints, read } from "./harness/documents.js";
import { pieces } from "./harness/recipes.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";

/** The single snippet of each row of README's table of APIs, by the reader's starting point. */
function snippets(): Map<string, string> {
  const table = read("README.md").split("\n## APIs\n")[1]!.split("\n## ")[0]!;
  const rows = [...table.matchAll(/^\| (?!you have|---)(.+?) \| `(.+?)` \| \[/gm)];
  expect(rows).toHaveLength([...table.matchAll(/^\| /gm)].length - 1);
  return new Map(rows.map(([, has, code]) => [has!, code!]));
}

/** Rows of the table, with the code around the snippet. `$` is the snippet. */
const AROUND: Readonly<Record<string, string>> = {
  "an AG-UI client": `import { HttpAgent } from "@ag-ui/client"; export const agent = $;`,
  "CopilotKit in the browser": `import { CopilotKitProvider } from "@copilotkit/react-core/v2"; export const page = $<p /></CopilotKitProvider>;`,
  "CopilotKit's Node runtime": `import { CopilotKitIntelligence } from "@copilotkit/runtime/v2"; declare const apiKey: string; export const platform = $;`,
  TypeScript: `import { Threadline } from "threadline"; for await (const item of $) console.log(item);`,
  React: `import { useThread } from "threadline/react"; export function Chat() { $ void stop; return <button onClick={() => send("hi")}>{messages.length}</button>; }`,
  "Vercel AI SDK": `import { useChat } from "@ai-sdk/react"; import { DefaultChatTransport } from "ai"; export function Chat() { return $; }`,
  // The package is not one of this package's tests: tests/real uses it.
  "LangGraph's `useStream`": `declare function useStream(options: { apiUrl: string; assistantId: string }): unknown; export const stream = $;`,
  "a WebSocket": `export const socket: WebSocket = $;`,
  AgentKit: `import { createNetwork, type createAgent } from "@inngest/agent-kit"; import { threadlineHistory } from "threadline/agentkit";
    declare const agents: ReturnType<typeof createAgent>[]; declare const router: () => undefined; declare const url: string; export const network = $;`,
  AG2B: `import { threadline } from "threadline/ag2b"; declare const agent: { use(plugin: ReturnType<typeof threadline>): Promise<() => void> }; $;`,
};
/** Rows that `scripts/tour.sh` runs, or that are tested in their own language. */
const ELSEWHERE =
  /^(curl |python3 |let mut |store = \{|(graph|session|store|service|client) = (builder|Threadline|OpenAI))/;

/** Blocks of docs/copilotkit.md, with the code that they leave to the reader. */
const LEFT_OUT = `declare const threadId: string; declare const myAgent: never; declare function userOf(request: Request): string; export {};`;

/** The options of docs/typescript.md, with the code that they leave to the reader. */
const OPTIONS = `import { Threadline } from "threadline"; declare const url: string, token: string, region: string; void threadline;
  declare function activeSpan(): { traceparent: string } | undefined; declare function measure(...of: unknown[]): void; export {};`;

/** The inbox of docs/typescript.md, with the code that it leaves to the reader. */
const INBOX = `import { Threadline } from "threadline"; import { useInbox } from "threadline/react"; declare const threadline: Threadline; export {};`;

/** The blocks of docs/queue.md and docs/forks.md, with the code that they leave to the reader. */
const PAGE = `import { Threadline } from "threadline"; import { useThread } from "threadline/react"; declare const threadline: Threadline; export {};`;

/** The blocks of docs/ai-sdk.md about the package, with the code that they leave to the reader. */
const CHAT = [
  `declare const id: string; declare function fetchToken(): Promise<string>; void Chat; export {};`,
  `import type { Threadline } from "threadline"; declare const threadline: Threadline;`,
];

test("the snippets of README and the blocks of pages match the types of the packages", { timeout: 240_000 }, () => {
  const here = [...snippets()].filter(([, code]) => !ELSEWHERE.test(code));
  expect(here.map(([has]) => has).sort()).toEqual(Object.keys(AROUND).sort());
  const pages = blocks("docs/copilotkit.md");
  expect(pages).toHaveLength(2);
  const inbox = blocks("docs/typescript.md", "Answering what waits");
  expect(inbox).toHaveLength(2);
  const queue = blocks("docs/queue.md");
  expect(queue).toHaveLength(2);
  const forks = blocks("docs/forks.md");
  expect(forks).toHaveLength(2);
  const chats = blocks("docs/ai-sdk.md", "With the TypeScript package");
  expect(chats).toHaveLength(2);
  const options = blocks("docs/typescript.md", "Options");
  expect(options).toHaveLength(1);
  const right = [
    ...here.map(([has, code], n) => [`readme-${n}.tsx`, AROUND[has]!.replace("$", () => code)] as const),
    ...pages.map((code, n) => [`copilotkit-${n}.tsx`, `${code}\n${LEFT_OUT}`] as const),
    ...options.map((code, n) => [`options-${n}.tsx`, `${code}\n${OPTIONS}`] as const),
    ...inbox.map((code, n) => [`inbox-${n}.tsx`, `${code}\n${INBOX}`] as const),
    ...queue.map((code, n) => [`queue-${n}.tsx`, `${code}\n${PAGE}`] as const),
    ...forks.map((code, n) => [`forks-${n}.tsx`, `${code}\n${PAGE}`] as const),
    ...chats.map((code, n) => [`chats-${n}.tsx`, `${code}\n${CHAT[n]}`] as const),
  ];
  // Errors are detected: each snippet fails with a misspelt option or type, each recipe with a misspelt import.
  const misspelt =
    /(?<=\{ |\{\n? *|<\w+ |new |\.)(url|api|apiUrl|runtimeUrl|agentId|subscribe|WebSocket|name|agents|interruptId)\b/;
  const recipes = pieces();
  const wrong = [
    ...right.map(([name, code]) => [`wrong-${name}`, code.replace(misspelt, "$&Misspelt")] as const),
    ...recipes.map(
      ([name, code]) => [`wrong-${name}`, code.replace(/import (?:type )?\{\s*\w+/, "$&Misspelt")] as const,
    ),
  ];
  const found = complaints(Object.fromEntries([...right, ...recipes, ...wrong]));
  expect(found.filter((line) => !line.startsWith("wrong-"))).toEqual([]);
  expect([...new Set(found.map((line) => line.split(":")[0]))].sort()).toEqual(wrong.map(([name]) => name).sort());
});

describe("against the server", () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start();
  });
  afterAll(() => server?.end());

  const AsyncFunction = (async () => {}).constructor as new (
    ...code: string[]
  ) => (...given: unknown[]) => Promise<Record<string, unknown>>;

  /** Runs the code of a page with this server's address, and returns the given variables. */
  async function carryOut(code: string, given: Record<string, unknown>, ...wanted: string[]) {
    const here = code.replaceAll("localhost:7420", `127.0.0.1:${server.port}`).replace(/^import .*$/gm, "");
    return new AsyncFunction(...Object.keys(given), `${here}\nreturn { ${wanted} };`)(...Object.values(given));
  }

  test("docs/ag-ui.md: a chat, and the same chat after a reload", async () => {
    const HttpAgent: unknown = createRequire(`${AG_UI}/`)("@ag-ui/client").HttpAgent;
    const [chat, reload] = blocks("docs/ag-ui.md");
    await carryOut(chat!, { HttpAgent });
    const { agent, messages } = await carryOut(reload!, { HttpAgent }, "agent", "messages");
    const said = (messages as { role: string; content: string }[]).map(({ role, content }) => [role, content]);
    expect(said[0]).toEqual(["user", "Hello from the browser"]);
    expect(said.at(-1)![0]).toBe("assistant");
    expect((agent as { messages: unknown }).messages).toEqual(messages);
  });

  test("docs/typescript.md: an answer to what waits", async () => {
    const threadline = new Threadline({ url: server.url });
    const thread = threadline.thread((await threadline.threads.create({ agentId: "demo" })).threadId);
    await thread.start({ agentId: "demo", input: { messages: [{ id: "q", role: "user", content: "approve" }] } });
    await until("the question", async () => (await thread.get()).openInterrupts === 1);
    const { threadId } = await carryOut(
      blocks("docs/typescript.md", "Answering what waits")[0]!,
      { threadline },
      "threadId",
    );
    expect(threadId).toBe(thread.threadId);
    await until("the answer to be taken", async () => (await thread.get()).openInterrupts === 0);
    threadline.close();
  });

  test("docs/tour.md: a page without a package follows a thread, also over a restart", async () => {
    await server.request("POST", "/v1/threads", { body: { threadId: "demo" } });
    const told: [number, { type: string }][] = [];
    const console = { log: (...words: [number, { type: string }]) => told.push(words), error: expect.unreachable };
    let socket: WS | undefined;
    let over = false;
    class WebSocket extends WS {
      constructor(url: string, protocol: string) {
        super(url, protocol);
        this.on("error", () => {});
        socket = this;
      }
    }
    const setTimeout = (again: () => void, ms: number) => over || globalThis.setTimeout(again, ms);
    await carryOut(blocks("docs/tour.md")[0]!, { WebSocket, console, setTimeout });
    const append = (runId: string) =>
      server.request("PUT", `/v1/threads/demo/runs/${runId}`, { body: [{ type: "A" }, { type: "B" }] });
    await append("first");
    await until(
      "the first run",
      () => told.length >= 2,
      () => told,
    );
    const before = told.length;
    await server.restart();
    await append("second");
    await until(
      "the second run",
      () => told.length >= 2 * before,
      () => told,
    );
    expect(told.map(([seq]) => seq)).toEqual(told.map((_, index) => index + 1));
    over = true;
    socket!.close();
  });
});
