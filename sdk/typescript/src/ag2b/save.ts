import { isProblem, type Message, type Threadline } from "../index.js";

/**
 * Replaces the stored messages with the result of `make`, and calls `make` again if another writer has saved in between.
 * Returns the seq from which on the log contains the messages.
 */
export async function save(
  client: Threadline,
  name: string,
  make: (stored: readonly Message[]) => readonly Message[],
  signal?: AbortSignal,
): Promise<number> {
  const cancellable = signal ? { signal } : {};
  for (;;) {
    const stored = await client.conversations.get(name, cancellable);
    try {
      const saved = await client.conversations.put(name, make(stored.messages), { version: stored, ...cancellable });
      return saved.seq;
    } catch (error) {
      if (!isProblem(error, "conversation-changed")) throw error;
    }
  }
}
