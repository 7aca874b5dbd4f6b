import { ArrowDown } from "lucide-react";
import { Fragment, type ReactNode, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Message, Run } from "threadline";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { Button } from "../parts/Button.tsx";
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
  readonly messages: readonly Message[];
  /** The runs that ended after a message. */
  readonly ends: RunEnds;
  readonly isRunning: boolean;
  readonly agentId: string | null;
  readonly hasMore: boolean;
  readonly isFetching: boolean;
  readonly onMore: () => void;
  readonly answer: ToolAnswer | undefined;
  /** What follows the last message. */
  readonly children: ReactNode;
}) {
  const { messages, ends, isRunning, agentId, hasMore, isFetching, onMore, answer, children } = props;
  const [make] = useState(itemMaker);
  const [folds] = useState(() => new Set<string>());
  const items = useMemo(() => make(messages), [make, messages]);
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const handle = useRef<VirtualizerHandle>(null);
  const { isAtEnd, jump } = useStickToEnd(scroller, content);

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
                  />
                  {endsOf(item, ends).map((run) => (
                    <RunDivider key={run.runId} run={run} />
                  ))}
                </Fragment>
              )}
            </Virtualizer>
            <div className="messages-tail">{children}</div>
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

/** The runs that ended with an item: with its message, or with a result within it. */
function endsOf({ message, results }: Item, ends: RunEnds): readonly Run[] {
  if (ends.size === 0) return [];
  return [message, ...results].flatMap(({ id }) => ends.get(id) ?? []);
}
