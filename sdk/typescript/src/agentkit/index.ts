export { threadlineHistory } from "./history.js";
export type { HistoryOptions, PassedUserMessage, ThreadlineHistory, TitleContext } from "./options.js";
