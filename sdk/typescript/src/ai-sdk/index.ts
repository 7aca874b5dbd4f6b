/**
 * Chats of the Vercel AI SDK (`ai` 6 and 7): a transport for `useChat`, and the messages of a chat. A backend that calls the model
 * itself passes its stream to `RunHandle.pipe` of the client.
 *
 * @module ai-sdk
 */
export { type ChatMessages, toUIMessages } from "./messages.js";
export { type PageTool, ThreadlineChatTransport, type TransportOptions } from "./transport.js";
