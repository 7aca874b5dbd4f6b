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
  if (isProblem(error, "queue-full"))
    return "The queue is full: wait until a message in it was sent, or remove one. Your text is kept.";
  if (isProblem(error, "turn-begun")) return "The message is on its way: its run has begun.";
  if (isProblem(error, "turn-not-found")) return "The message is not in the queue any more: it was removed.";
  if (isProblem(error, "message-not-found"))
    return "No event of the thread brings this message: it cannot be edited or made again. Send another one instead.";
  if (isProblem(error, "too-many-branches"))
    return "The conversation has as many branches as it may have: delete one of them, or begin a new thread.";
  if (isProblem(error, "agent-not-found")) return "Agent not found: choose another agent.";
  return messageOf(error);
}
