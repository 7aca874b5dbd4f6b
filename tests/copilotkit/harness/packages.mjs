// The packages under test: a folder of `packages/`, named by COPILOTKIT.

export const version = process.env.COPILOTKIT ?? "newest";

/** Threadline is the runtime itself, and calls the agent as an AG-UI endpoint, without a Node runtime in the path. */
export const direct = process.env.VIA === "direct";

/** Imports a package of that folder, as an application that installed it would. */
export const { default: load } = await import(`../packages/${version}/import.mjs`);

const since = (release) => version === "newest" || Number(version) >= release;

/** Features of these releases that older ones lack. */
export const can = {
  /** The runner rejoins and sends unacknowledged events again; older ones run the agent again. */
  rejoin: since(1.69),
  unarchive: since(1.69),
  /** A deletion names the user. */
  deleteFor: since(1.69),
  /** A live list leaves out threads of other agents. */
  filter: since(1.69),
  /** Runs in other tabs are announced. */
  activity: since(1.69),
};
