import { isProblem, type Message, type Threadline } from "../index.js";

/**
 * Puts the messages that `make` makes of the stored ones in their place, and makes them anew if somebody else has saved something
 * in between. Gives the seq from which on the log has them.
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
