export type { AgUiEvent, Interrupt, Message, ToolCall } from "../types.js";
export { Conversation, type ConversationStart } from "./conversation.js";
