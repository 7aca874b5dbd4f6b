import { isProblem } from "threadline";
import { messageOf } from "../parts/failure.ts";

/** Reason for which something was not sent, for a person. */
export function refusalOf(error: unknown): string {
  if (isProblem(error, "run-active")) {
    const { run } = error.problem as { run?: { agentId?: unknown } };
    const who = typeof run?.agentId === "string" ? `The agent ${run.agentId} is` : "Another client is";
    return `${who} active in this thread. Wait until the run ends, or stop it. Your text is kept.`;
  }
  if (isProblem(error, "interrupts-open"))
    return "The thread has an unanswered interrupt: answer it first. Your text is kept.";
  if (isProblem(error, "interrupt-expired"))
    return "The agent's question has expired: cancel it, or send a new message.";
  if (isProblem(error, "queue-full"))
    return "The queue is full: wait until a message in it was sent, or remove one. Your text is kept.";
  if (isProblem(error, "turn-begun")) return "The message is on its way: its run has begun.";
  if (isProblem(error, "turn-not-found")) return "The message is not in the queue any more: it was removed.";
  if (isProblem(error, "message-not-found"))
    return "This message is not in the log of the thread, so it cannot be edited or regenerated. Send a new message instead.";
  if (isProblem(error, "too-many-branches"))
    return "The conversation has reached its limit of 256 branches. Start a new thread instead. Your text is kept.";
  if (isProblem(error, "agent-not-found")) return "Agent not found: choose another agent.";
  return messageOf(error);
}
