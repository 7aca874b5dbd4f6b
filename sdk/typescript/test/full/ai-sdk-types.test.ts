// The types of the entry, against both versions of the AI SDK.

import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

const CODE = `
import { useChat } from "@ai-sdk/react";
import { streamText, type ChatTransport, type DefaultChatTransport, type LanguageModel, type UIMessage } from "ai";
import { Threadline, type ThreadRef } from "threadline";
import { ThreadlineChatTransport, toUIMessages } from "threadline/ai-sdk";

declare const model: LanguageModel;
declare const thread: ThreadRef;
type Mine = UIMessage<{ runId: string }, { chart: { points: number[] } }>;

const client = new Threadline({ url: "http://localhost:7420" });
export const plain: ChatTransport<UIMessage> = new ThreadlineChatTransport({ client, agentId: "demo" });
const transport = new ThreadlineChatTransport<Mine>({
  client,
  agentId: "demo",
  tools: () => [{ name: "locate", description: "Where the user is", parameters: {} }],
  busy: "enqueue",
  headers: async () => ({ "X-Trace": "1" }),
  body: { plan: "gold" },
});
export const typed: DefaultChatTransport<Mine> = transport;
export const stopped: Promise<void> = transport.stop("chat", { signal: AbortSignal.timeout(1) });
const { messages, activeRunId } = await toUIMessages<Mine>(client, "demo", "chat", { retryFor: 0 });
export const run: string | null = activeRunId;
export function Page() {
  const chat = useChat<Mine>({ id: "chat", messages, transport, resume: true });
  return chat.messages.map(({ metadata, parts }) => [
    metadata?.runId,
    parts.map((part) => (part.type === "data-chart" ? part.data.points.length : 0)),
  ]);
}
await thread.run({ messages: [{ role: "user", content: "hello" }] }, async (run) => {
  const result = streamText({ model, prompt: "", abortSignal: run.signal });
  await run.pipe(result.toUIMessageStream());
  await run.pipe(result.fullStream);
});
await thread.run<{ step: number }>({ state: { step: 0 } }, async (run) => {
  await run.state.set({ step: run.stored.state.step + 1 });
  // @ts-expect-error: another state.
  await run.state.set({ steps: 1 });
});

// @ts-expect-error: the agent is required.
new ThreadlineChatTransport({ client });
// @ts-expect-error: the address is that of the client.
new ThreadlineChatTransport({ client, agentId: "demo", api: "/api/chat" });
// @ts-expect-error: a tool has a description.
new ThreadlineChatTransport({ client, agentId: "demo", tools: [{ name: "locate" }] });
// @ts-expect-error: not a treatment of busy threads.
new ThreadlineChatTransport({ client, agentId: "demo", busy: "wait" });
// @ts-expect-error: messages of another type.
export const other: ChatTransport<Mine> = new ThreadlineChatTransport<UIMessage<string>>({ client, agentId: "demo" });
// @ts-expect-error: not a stream of chunks.
await thread.run({}, (run) => run.pipe(["text"]));
`;

test.each([
  { version: 6, ai: "ai6", react: "ai6-react" },
  { version: 7, ai: "ai", react: "@ai-sdk/react" },
])("the types match ai $version", { timeout: 240_000 }, ({ version, ai, react }) => {
  const page = `${root}test/ai-sdk/page-of-${version}.ts`;
  const module = (name: string) => [`${root}node_modules/${name}`];
  const options: ts.CompilerOptions = {
    ...ts.convertCompilerOptionsFromJson(
      (ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile).config as { compilerOptions: object })
        .compilerOptions,
      root,
    ).options,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    paths: {
      threadline: [`${root}src/index.ts`],
      "threadline/*": [`${root}src/*/index.ts`],
      ai: module(ai),
      "@ai-sdk/react": module(react),
    },
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => path === page || fileExists(path);
  host.readFile = (path) => (path === page ? CODE : readFile(path));
  host.getSourceFile = (path, language, ...more) =>
    path === page ? ts.createSourceFile(path, CODE, language, true) : getSourceFile(path, language, ...more);
  const program = ts.createProgram([page], options, host);
  const found = ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`);
  expect(found).toEqual([]);
  // The package itself was compiled against this version.
  const ofAi = program.getSourceFiles().filter(({ fileName }) => fileName.endsWith("/dist/index.d.ts"));
  expect(ofAi.some(({ fileName }) => fileName.includes(`node_modules/${ai}/`))).toBe(true);
});
