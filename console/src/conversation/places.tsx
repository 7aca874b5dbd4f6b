import { ArrowLeft, History, MessageCircleOff, Trash2, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { ClosedError, isProblem, type ThreadlineError } from "threadline";
import type { Moment } from "../inspector/moment.ts";
import { Blank } from "../parts/Blank.tsx";
import { Button } from "../parts/Button.tsx";
import { messageOf } from "../parts/failure.ts";
import { href, type Panel } from "../route.ts";

/** In the place of a conversation that is being loaded. */
export function Skeleton() {
  return (
    <div className="skeleton" role="status" aria-label="Loading the conversation">
      <i />
      <i />
      <i />
      <i />
    </div>
  );
}

/** In the place of a conversation that is not there. */
export function Missing({ threadId, error }: { readonly threadId: string; readonly error: ThreadlineError | null }) {
  return (
    <>
      <header className="pane-header">
        <a className="icon-button only-narrow" href={href({ name: "home" })} aria-label="Back to the threads">
          <ArrowLeft />
        </a>
        <h1 className="visually-hidden">Thread</h1>
      </header>
      {whyOf(threadId, error)}
    </>
  );
}

function whyOf(threadId: string, error: ThreadlineError | null): ReactNode {
  const back = (
    <a className="button" href={href({ name: "home" })}>
      To the threads
    </a>
  );
  if (error instanceof ClosedError)
    return (
      <Blank icon={<Trash2 />} title="This thread was deleted">
        <p>All of its events were deleted with it.</p>
        {back}
      </Blank>
    );
  if (error)
    return (
      <Blank icon={<TriangleAlert />} title="The thread cannot be shown">
        <p role="alert">{messageOf(error)}</p>
        {error.retryable ? (
          <p>Retrying automatically.</p>
        ) : (
          <Button onClick={() => location.reload()}>Try again</Button>
        )}
      </Blank>
    );
  return (
    <Blank icon={<MessageCircleOff />} title="Thread not found">
      <p>
        The thread <code>{threadId}</code> does not exist, or belongs to another user.
      </p>
      {back}
    </Blank>
  );
}

/** Tells that what is shown is the past. */
export function MomentBar(props: {
  readonly threadId: string;
  readonly panel: Panel | undefined;
  readonly moment: Moment;
  readonly tail: number;
}) {
  const { threadId, panel, moment, tail } = props;
  return (
    <div className="moment-bar" role="status">
      <History aria-hidden="true" />
      <span>
        {isProblem(moment.error, "cursor-ahead")
          ? `There is no event ${moment.at}: this thread ends at ${tail}`
          : moment.error
            ? messageOf(moment.error)
            : `As it was after event ${moment.at} of ${Math.max(tail, moment.at)}`}
      </span>
      <a href={href({ name: "thread", threadId, panel })}>Back to now</a>
    </div>
  );
}
