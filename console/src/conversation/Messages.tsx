import { ArrowDown } from "lucide-react";
import { Fragment, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Run } from "threadline";
import type { AnyMessage } from "../untrusted.ts";
import type { Parting } from "threadline/react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { Button } from "../parts/Button.tsx";
import { expectedIn, type Step } from "./arrival.ts";
import { BranchPicker } from "./BranchPicker.tsx";
import type { Branching } from "./branching.ts";
import type { RunEnds } from "./ends.ts";
import { OpenFolds } from "./Fold.tsx";
import { type Item, itemMaker } from "./items.ts";
import { MessageView } from "./MessageView.tsx";
import { RunDivider } from "./RunEnd.tsx";
import { useStickToEnd } from "./stick.ts";
import type { ToolAnswer } from "./ToolCard.tsx";

/** So near to the top older messages are loaded. */
const AHEAD_PX = 1_200;
const PADDING_PX = 20;

/** The messages, of which only those in sight are made. Stays at the newest while one is there. */
export function Messages(props: {
  readonly messages: readonly AnyMessage[];
  /** The runs that ended after a message. */
  readonly ends: RunEnds;
  readonly isRunning: boolean;
  readonly agentId: string | null;
  readonly hasMore: boolean;
  readonly isFetching: boolean;
  readonly onMore: () => void;
  readonly answer: ToolAnswer | undefined;
  /** Absent where no other branch can be begun. */
  readonly branching?: Branching | undefined;
  /** The message that is being edited. */
  readonly edited?: string | null;
  /** The messages at which branches part. */
  readonly partings?: readonly Parting[] | undefined;
  readonly onPick?: (parting: Parting, step: Step) => void;
  /** What follows the last message. */
  readonly children: ReactNode;
}) {
  const { messages, ends, isRunning, agentId, hasMore, isFetching, onMore, answer, children } = props;
  const { branching, edited = null, partings = NO_PARTINGS, onPick = () => {} } = props;
  const [make] = useState(itemMaker);
  const [folds] = useState(() => new Set<string>());
  const items = useMemo(() => make(messages), [make, messages]);
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const handle = useRef<VirtualizerHandle>(null);
  const { isAtEnd, jump, release } = useStickToEnd(scroller, content);

  // Older messages have come: what is in sight stays where it is.
  const first = items[0]?.message.id;
  const before = useRef(first);
  const isPrepended =
    before.current !== undefined &&
    first !== before.current &&
    items.some(({ message }) => message.id === before.current);
  useLayoutEffect(() => {
    before.current = first;
  });

  // The picker with which this branch was picked comes into sight.
  useEffect(() => {
    const arrival = partings.find(({ threads, shown, seq }) => expectedIn(threads[shown]?.threadId)?.seq === seq);
    const at = items.findIndex((item) => arrival && pickersOf(item, [arrival]).length > 0);
    if (!arrival || at < 0) return;
    const frame = requestAnimationFrame(() => {
      if (content.current?.querySelector(`.branch-picker[data-seq="${arrival.seq}"]`)) return;
      release();
      handle.current?.scrollToIndex(at, { align: "center" });
    });
    return () => cancelAnimationFrame(frame);
  }, [partings, items, release]);

  // Text in the editor stays while the message is out of sight.
  const kept = items.findIndex(({ message }) => message.id === edited);
  const more = (offset: number) => {
    if (hasMore && !isFetching && offset < AHEAD_PX) onMore();
  };
  return (
    <OpenFolds value={folds}>
      <div className="messages-frame">
        <div ref={scroller} className="messages" role="region" aria-label="Messages" tabIndex={0}>
          <div ref={content} className="messages-content" style={{ paddingTop: PADDING_PX }}>
            <Virtualizer
              ref={handle}
              scrollRef={scroller}
              data={items}
              shift={isPrepended}
              startMargin={PADDING_PX}
              bufferSize={600}
              keepMounted={kept < 0 ? NONE_KEPT : [kept]}
              onScroll={more}
            >
              {(item, at) => (
                <Fragment key={item.message.id}>
                  <MessageView
                    item={item}
                    isGrowing={isRunning && at === items.length - 1}
                    isRunning={isRunning}
                    agentId={agentId}
                    answer={answer}
                    branching={branching}
                    isEdited={edited === item.message.id}
                  />
                  {pickersOf(item, partings).map((parting) => (
                    <BranchPicker key={parting.seq} parting={parting} onPick={onPick} />
                  ))}
                  {endsOf(item, ends).map((run) => (
                    <RunDivider key={run.runId} run={run} />
                  ))}
                </Fragment>
              )}
            </Virtualizer>
            <div className="messages-tail">
              {!hasMore &&
                partings.map((parting) =>
                  parting.messageId === null ? (
                    <BranchPicker key={parting.seq} parting={parting} onPick={onPick} />
                  ) : null,
                )}
              {children}
            </div>
          </div>
        </div>
        {isFetching && <div className="spinner fetching" role="status" aria-label="Loading older messages" />}
        {!isAtEnd && (
          <Button className="jump" onClick={jump}>
            <ArrowDown aria-hidden="true" /> Jump to newest
          </Button>
        )}
      </div>
    </OpenFolds>
  );
}

const NO_PARTINGS: readonly Parting[] = [];
const NONE_KEPT: readonly number[] = [];

/** The partings at an item: at its message, or at a result within it. */
function pickersOf({ message, results }: Item, partings: readonly Parting[]): readonly Parting[] {
  return partings.filter(({ messageId }) => [message, ...results].some(({ id }) => id === messageId));
}

/** The runs that ended with an item: with its message, or with a result within it. */
function endsOf({ message, results }: Item, ends: RunEnds): readonly Run[] {
  if (ends.size === 0) return [];
  return [message, ...results].flatMap(({ id }) => ends.get(id) ?? []);
}
