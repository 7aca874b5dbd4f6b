import { Pause, Play } from "lucide-react";
import { useEffect, useRef } from "react";
import type { UseThread } from "threadline/react";
import { Button, IconButton } from "../parts/Button.tsx";
import { useNotices } from "../parts/notices.tsx";
import { movesOf, restOf, summaryOf } from "./queue.ts";
import { QueuedTurn } from "./QueuedTurn.tsx";
import { refusalOf } from "./refusal.ts";

/** The messages that wait for the run to end; nothing if there are none and nothing holds the queue. */
export function Queue(props: {
  readonly live: Pick<
    UseThread,
    | "queue"
    | "interrupts"
    | "isRunning"
    | "editTurn"
    | "moveTurn"
    | "removeTurn"
    | "startTurn"
    | "holdQueue"
    | "releaseQueue"
  >;
  /** False for a user with read access only. */
  readonly mayWrite: boolean;
}) {
  const { live, mayWrite } = props;
  const { items, held } = live.queue;
  const { fail } = useNotices();
  const list = useRef<HTMLOListElement>(null);
  /** The button by which a turn was moved. */
  const moved = useRef<{ readonly runId: string; readonly name: string } | undefined>(undefined);
  useEffect(() => {
    const { current } = moved;
    moved.current = undefined;
    if (!current) return;
    const turns = [...(list.current?.querySelectorAll<HTMLElement>("[data-run-id]") ?? [])];
    const turn = turns.find(({ dataset }) => dataset["runId"] === current.runId);
    // Focus moves with the turn; at the end of the list the same button is off.
    const usable = [...(turn?.querySelectorAll<HTMLButtonElement>("button[name]:enabled") ?? [])];
    (usable.find(({ name }) => name === current.name) ?? usable[0])?.focus();
  }, [items]);
  if (items.length === 0 && held === null) return null;
  const rest = restOf(live);

  const change = (task: () => Promise<unknown>) => task().catch((error: unknown) => fail(refusalOf(error)));
  const move = async (runId: string, before: string | null, name: string) => {
    moved.current = { runId, name };
    await change(() => live.moveTurn(runId, before));
  };
  return (
    <section className="queue" aria-label="Queue">
      <div className="queue-head">
        <p>{summaryOf(items.length, rest)}</p>
        {mayWrite && held !== null && (
          <Button onClick={() => void change(live.releaseQueue)}>
            <Play aria-hidden="true" /> Release
          </Button>
        )}
        {mayWrite && held === null && (
          <IconButton label="Hold the queue" onClick={() => void change(live.holdQueue)}>
            <Pause />
          </IconButton>
        )}
      </div>
      <ol ref={list} className="queue-turns" aria-label="Waiting messages">
        {items.map((turn, at) => {
          const { runId } = turn;
          const { up, down } = movesOf(items, at);
          return (
            <QueuedTurn
              key={runId}
              turn={turn}
              mayWrite={mayWrite}
              onEdit={(text) => live.editTurn(runId, text)}
              onUp={up === undefined ? undefined : () => void move(runId, up, "up")}
              onDown={down === undefined ? undefined : () => void move(runId, down, "down")}
              onStart={() => void change(() => live.startTurn(runId))}
              onRemove={() => void change(() => live.removeTurn(runId))}
            />
          );
        })}
      </ol>
    </section>
  );
}
