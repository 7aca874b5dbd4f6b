import { Conversation } from "./conversation/conversation.js";
import { STORED_PAGE_EVENTS } from "./limits.js";
import type { EventPosition, ThreadRef } from "./threads.js";
import type { StartedRun } from "./types.js";

/** Folds the stored events of a run: its own messages, on the state that the thread had before. */
export async function storedOf(
  thread: Pick<ThreadRef, "state" | "events">,
  { run, epoch }: StartedRun,
): Promise<Conversation> {
  const at = run.firstSeq - 1;
  const before = at > 0 ? await thread.state({ at, epoch }) : { state: {} };
  const stored = new Conversation({ state: before.state, hasMore: at > 0 });
  let position: EventPosition = { after: at, epoch };
  for (let more = at < run.lastSeq; more;) {
    const page = await thread.events({ ...position, runId: run.runId, limit: STORED_PAGE_EVENTS });
    // Events after `lastSeq` are left out, since another producer of the run may still append.
    stored.apply(page.events.filter(({ seq }) => seq <= run.lastSeq).map(({ event }) => event));
    position = { cursor: page.nextCursor };
    more = page.hasMore && (page.events.at(-1)?.seq ?? run.lastSeq) < run.lastSeq;
  }
  return stored;
}
