export type { AgUiEvent, Interrupt, Message, State, ThreadEvent, ToolCall, UnknownEvent } from "../types.js";
export { Conversation, type ConversationStart } from "./conversation.js";
