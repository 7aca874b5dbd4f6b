import { Bot } from "lucide-react";
import type { Agent } from "threadline";

/** Which agent does the next run. */
export function AgentChoice(props: {
  readonly agents: readonly Agent[] | undefined;
  readonly chosen: string | undefined;
  readonly onChoose: (agentId: string) => void;
}) {
  const { agents = [], chosen, onChoose } = props;
  // One that is not in the list any more, or that one may not know of.
  const isListed = agents.some(({ agentId }) => agentId === chosen);
  const choices = [...(chosen !== undefined && !isListed ? [chosen] : []), ...agents.map(({ agentId }) => agentId)];
  return (
    <label className="agent-choice">
      <Bot aria-hidden="true" />
      <select aria-label="Agent" value={chosen ?? ""} onChange={(event) => onChoose(event.target.value)}>
        {chosen === undefined && (
          <option value="" disabled>
            {props.agents?.length === 0 ? "No agent" : "Choose an agent"}
          </option>
        )}
        {choices.map((agentId) => (
          <option key={agentId} value={agentId}>
            {agentId}
          </option>
        ))}
      </select>
    </label>
  );
}
