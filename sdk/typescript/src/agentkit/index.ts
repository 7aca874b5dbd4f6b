export { threadlineAgent, type ThreadlineAgentOptions } from "./agent.js";
export { threadlineHistory } from "./history.js";
export type { HistoryOptions, PassedUserMessage, ThreadlineHistory, TitleContext, UnsavedRun } from "./options.js";
