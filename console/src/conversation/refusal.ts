import { isProblem } from "threadline";
import { messageOf } from "../parts/failure.ts";

/** Why something was not sent, for a person. */
export function refusalOf(error: unknown): string {
  if (isProblem(error, "run-active")) {
    const { run } = error.problem as { run?: { agentId?: unknown } };
    const who = typeof run?.agentId === "string" ? `The agent ${run.agentId} is` : "Another client is";
    return `${who} active in this thread. Wait until the run ends, or stop it. Your text is kept.`;
  }
  if (isProblem(error, "interrupts-open"))
    return "The thread has an unanswered interrupt: answer it first. Your text is kept.";
  if (isProblem(error, "agent-not-found")) return "Agent not found: choose another agent.";
  return messageOf(error);
}
