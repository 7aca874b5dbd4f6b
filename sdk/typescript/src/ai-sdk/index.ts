/**
 * Chats of the Vercel AI SDK (`ai` 6 and 7): a transport for `useChat`, the messages of a chat, and a writer for backends
 * that call the model themselves.
 *
 * @module ai-sdk
 */
export { type ChatMessages, toUIMessages } from "./messages.js";
export { pipeUIMessageStream, type UIMessageStream } from "./pipe.js";
export { type PageTool, ThreadlineChatTransport, type TransportOptions } from "./transport.js";
