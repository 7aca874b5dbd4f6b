// The packages under test: a folder of `packages/`, named by COPILOTKIT.

export const version = process.env.COPILOTKIT ?? "newest";

/** Threadline is the runtime itself, and runs the agent as an AG-UI endpoint: there is no Node in the path. */
export const direct = process.env.DOOR === "direct";

/** Imports a package of that folder, as whoever installed it would. */
export const { default: load } = await import(`../packages/${version}/import.mjs`);

const since = (release) => version === "newest" || Number(version) >= release;

/** What these releases can, and older ones cannot. */
export const can = {
  /** Their runner comes back with what was not acknowledged; older ones run the agent again. */
  rejoin: since(1.69),
  unarchive: since(1.69),
  /** They say for whom a thread is to be deleted. */
  deleteFor: since(1.69),
  /** They keep threads of other agents out of a list that is live. */
  filter: since(1.69),
  /** They are told of runs in other tabs. */
  activity: since(1.69),
};
