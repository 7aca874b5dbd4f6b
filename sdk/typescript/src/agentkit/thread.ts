import type { Threadline } from "../client.js";
import { isProblem } from "../errors.js";
import type { NewThread, ThreadRef } from "../threads.js";
import type { Thread } from "../types.js";
import type { Point } from "./turns.js";

/** The newest position of a thread's log; null if the thread does not exist. */
export async function endOf(thread: ThreadRef): Promise<Point | null> {
  const found = await found404(thread.get());
  return found ? { epoch: found.epoch, tail: found.tail } : null;
}

/** Creates a thread that may be created concurrently. A thread of another user is still refused. */
export async function createOnce(client: Threadline, thread: ThreadRef, options: NewThread): Promise<void> {
  try {
    await client.threads.create({ ...options, threadId: thread.threadId });
  } catch (error) {
    const found = isProblem(error, "thread-exists") ? await found404(thread.get()) : undefined;
    if (!found) throw error;
  }
}

/** `undefined` if the thread does not exist. */
async function found404(asked: Promise<Thread>): Promise<Thread | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isProblem(error, "thread-not-found")) return undefined;
    throw error;
  }
}
