import { useEffect, useState } from "react";
import { useThread } from "threadline/react";
import { useMoment } from "../inspector/moment.ts";
import { useNotices } from "../parts/notices.tsx";
import { READ_ONLY, useMayWrite } from "../rights.ts";
import { go, type Panel } from "../route.ts";
import { useThreadActions } from "../threads/actions.tsx";
import { nameOf } from "../threads/name.ts";
import { useShortcuts } from "../threads/shortcuts.ts";
import { preferred, rememberAgent, useAgents } from "./agents.ts";
import { Announcer } from "./Announcer.tsx";
import { expectedIn } from "./arrival.ts";
import { untold, useBranches } from "./branching.ts";
import { Composer } from "./Composer.tsx";
import { Deliveries } from "./Delivery.tsx";
import { Messages } from "./Messages.tsx";
import { Missing, MomentBar, Skeleton } from "./places.tsx";
import { Queue } from "./Queue.tsx";
import { refusalOf } from "./refusal.ts";
import { useEnds, useRuns } from "./runs.ts";
import { useSeen } from "./seen.ts";
import { Tail } from "./Tail.tsx";
import { ThreadHeader } from "./ThreadHeader.tsx";

/** A conversation: live, or, with `at`, as it was after that seq. */
export function ThreadPane(props: {
  readonly threadId: string;
  readonly panel?: Panel | undefined;
  readonly at?: number | undefined;
}) {
  const { threadId, panel, at } = props;
  const { fail } = useNotices();
  const live = useThread(threadId);
  const { thread, run, isRunning } = live;
  const moment = useMoment(threadId, at);
  const mayWrite = useMayWrite();
  const agents = useAgents();
  const { last: lastRun, onlyAgent, ends } = useRuns(threadId, live);
  const shownEnds = useEnds(ends, lastRun, at);
  const [chosen, setChosen] = useState<string>();
  const own = thread?.agentId ?? lastRun?.agentId ?? undefined;
  const agentId = chosen ?? own ?? (agents && preferred(agents, undefined));
  const chosenLive = useThread(threadId, { agentId });
  const { send, resume, addToolResult } = chosenLive;
  const { branching, edited, pick, deliveries } = useBranches(chosenLive, panel, mayWrite);
  const [actions, dialogs] = useThreadActions();
  useSeen(live, mayWrite);
  useTitle(thread && nameOf(thread), isRunning);

  const inspect = () => go({ name: "thread", threadId, ...(panel ? {} : { panel: "events" }) });
  useShortcuts({ i: inspect, F2: () => thread && actions.rename(thread) });
  const choose = (agentId: string) => {
    setChosen(agentId);
    rememberAgent(agentId);
  };

  const isMissing = !live.isLoading && thread === null;
  if (isMissing) return <Missing threadId={threadId} error={live.error} />;
  const running = isRunning ? (run?.status === "stopping" ? "stopping" : "running") : undefined;
  const shown = moment ?? live;
  const isEmpty = shown.isLoading && shown.messages.length === 0;
  const isPast = moment !== undefined;
  return (
    <Deliveries value={deliveries}>
      <ThreadHeader
        thread={thread}
        agentId={(isRunning && run?.agentId) || own}
        running={running}
        actions={actions}
        isInspecting={panel !== undefined}
        onInspect={inspect}
      />
      {moment && <MomentBar threadId={threadId} panel={panel} moment={moment} tail={thread?.tail ?? 0} />}
      <Announcer live={live} />
      {isEmpty ? (
        <Skeleton />
      ) : (
        <Messages
          // What was unfolded and where one was belong to one of the two.
          key={isPast ? "past" : "now"}
          messages={shown.messages}
          ends={shownEnds}
          isRunning={isRunning && !isPast}
          agentId={onlyAgent ?? null}
          hasMore={!isPast && live.hasMoreMessages}
          isFetching={!isPast && live.isFetchingMoreMessages}
          onMore={() => void live.fetchMoreMessages().catch(fail)}
          answer={isPast || isRunning || !mayWrite ? undefined : addToolResult}
          branching={isPast ? undefined : branching}
          edited={isPast ? null : edited}
          partings={isPast ? undefined : live.partings}
          onPick={pick}
        >
          <Tail
            live={live}
            moment={moment}
            lastRun={lastRun}
            onAnswer={mayWrite ? resume : undefined}
            onAgain={mayWrite ? () => send({ messages: [] }) : undefined}
          />
        </Messages>
      )}
      {!isPast && <Queue live={live} mayWrite={mayWrite} />}
      <Composer
        threadId={threadId}
        agents={agents}
        agentId={agentId}
        onAgent={choose}
        // The message is shown at once.
        onSend={async (text, busy) => void send(text, { busy }).catch(untold)}
        running={running}
        onStop={mayWrite ? () => void live.stop().catch((error: unknown) => fail(refusalOf(error))) : undefined}
        blocked={blockedBy(isPast, mayWrite, !isRunning && live.interrupts.length > 0)}
        hasFocus={matchMedia("(hover: hover)").matches && !panel && expectedIn(threadId) === undefined}
      />
      {dialogs}
    </Deliveries>
  );
}

function blockedBy(isPast: boolean, mayWrite: boolean, isAsked: boolean): string | undefined {
  if (!mayWrite) return READ_ONLY;
  if (isPast) return "You are viewing an earlier state. Return to the present to write.";
  return isAsked ? "The agent waits for an answer: answer it first." : undefined;
}

function useTitle(name: string | null, isRunning: boolean): void {
  useEffect(() => {
    document.title = [isRunning && "●", name && `${name} —`, "Threadline"].filter(Boolean).join(" ");
    return () => void (document.title = "Threadline");
  }, [name, isRunning]);
}
