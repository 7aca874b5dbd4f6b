import { Activity as ActivityIcon, RefreshCw } from "lucide-react";
import { memo, type ReactNode } from "react";
import type { AnyMessage } from "../untrusted.ts";
import { IconButton } from "../parts/Button.tsx";
import { Article } from "./Article.tsx";
import type { Branching } from "./branching.ts";
import { textOf } from "./content.ts";
import { Fold } from "./Fold.tsx";
import { callsOf, type Item } from "./items.ts";
import { Json } from "./Json.tsx";
import { Parts } from "./Parts.tsx";
import { ToolCard, type ToolAnswer } from "./ToolCard.tsx";
import { UserMessage } from "./UserMessage.tsx";

/** A message of a conversation, with the tool calls that it makes. */
export const MessageView = memo(function MessageView(props: {
  readonly item: Item;
  /** More of it is to be expected. */
  readonly isGrowing: boolean;
  readonly isRunning: boolean;
  readonly agentId: string | null;
  /** Gives the result of a call in the place of the client; absent where none can be given. */
  readonly answer: ToolAnswer | undefined;
  /** Absent where no other branch can be begun. */
  readonly branching?: Branching | undefined;
  /** True while the message is edited. */
  readonly isEdited?: boolean;
}) {
  const { item, isGrowing } = props;
  const { message } = item;
  switch (message.role) {
    case "user":
      return <UserMessage message={message} branching={props.branching} isEdited={props.isEdited ?? false} />;
    case "assistant":
      return (
        <Turn item={item} agentId={props.agentId}>
          <Assistant {...props} />
        </Turn>
      );
    case "reasoning":
      return (
        <Turn item={item} agentId={props.agentId}>
          <Reasoning message={message} isGrowing={isGrowing} />
        </Turn>
      );
    case "activity":
      return (
        <Turn item={item} agentId={props.agentId}>
          <ActivityView message={message} />
        </Turn>
      );
    default:
      return <Aside message={message} />;
  }
});

/** Names the author where a turn begins. */
function Turn(props: { readonly item: Item; readonly agentId: string | null; readonly children: ReactNode }) {
  const { item, agentId, children } = props;
  const name = nameOf(item.message) ?? agentId;
  return (
    <>
      {item.beginsTurn && name && (
        <p className="speaker" dir="auto">
          {name}
        </p>
      )}
      {children}
    </>
  );
}

function nameOf({ name }: AnyMessage): string | undefined {
  return typeof name === "string" && name ? name : undefined;
}

function Assistant({
  item,
  isGrowing,
  isRunning,
  agentId,
  answer,
  branching,
}: {
  readonly item: Item;
  readonly isGrowing: boolean;
  readonly isRunning: boolean;
  readonly agentId: string | null;
  readonly answer: ToolAnswer | undefined;
  readonly branching?: Branching | undefined;
}) {
  const { message, results } = item;
  const calls = callsOf(message);
  const again = branching && !isGrowing && (
    <IconButton className="small" label="Regenerate" onClick={() => branching.regenerate(message.id)}>
      <RefreshCw />
    </IconButton>
  );
  return (
    <Article
      label={nameOf(message) ?? agentId ?? "Assistant"}
      message={message}
      className="from-assistant"
      tools={again}
    >
      <Owner message={message} />
      {/* The caret belongs to the text, as long as no call follows it. */}
      <div className={isGrowing && calls.length === 0 ? "said growing" : "said"}>
        <Parts message={message} isGrowing={isGrowing} />
      </div>
      {calls.map((call) => (
        <ToolCard
          key={call.id}
          call={call}
          result={results.find(({ toolCallId }) => toolCallId === call.id)}
          isRunning={isRunning}
          answer={answer}
        />
      ))}
    </Article>
  );
}

/** A subagent, if it was one. */
function Owner({ message }: { readonly message: AnyMessage }) {
  if (typeof message.subagentRunId !== "string") return null;
  return <span className="message-owner">Subagent {message.subagentRunId}</span>;
}

/** The last words of a reasoning message that is still being written. */
function Thinking({ message }: { readonly message: AnyMessage }) {
  return (
    <>
      <span className="thinking">Thinking…</span>
      <span className="glimpse thought">{textOf(message).slice(-160).replaceAll("\n", " ")}</span>
    </>
  );
}

function Reasoning({ message, isGrowing }: { readonly message: AnyMessage; readonly isGrowing: boolean }) {
  const isEncrypted = textOf(message) === "" && !isGrowing;
  if (isEncrypted) return <p className="aside">Hidden reasoning.</p>;
  return (
    <Fold id={message.id} className="reasoning" summary={isGrowing ? <Thinking message={message} /> : "Thought"}>
      <Parts message={message} isGrowing={isGrowing} />
    </Fold>
  );
}

/** Progress of an agent, in a shape of its own. */
function ActivityView({ message }: { readonly message: AnyMessage }) {
  const type = typeof message.activityType === "string" ? message.activityType : "";
  const summary = (
    <>
      <ActivityIcon aria-hidden="true" /> Activity {type && <code>{type}</code>}
    </>
  );
  return (
    <Fold id={message.id} className="activity" summary={summary}>
      <Json value={message.content} label="Content of the activity" />
    </Fold>
  );
}

const TITLES: ReadonlyMap<string, string> = new Map([
  ["system", "System message"],
  ["developer", "Developer message"],
  ["tool", "Result of a tool"],
]);

/** Messages without an author in the chat: instructions, and results of calls that are not loaded. */
function Aside({ message }: { readonly message: AnyMessage }) {
  const { id, role } = message;
  return (
    <Fold id={id} className="aside" summary={TITLES.get(role) ?? `Message of the role ${role}`}>
      <Parts message={message} isPlain />
    </Fold>
  );
}
