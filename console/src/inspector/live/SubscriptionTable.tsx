import type { ThreadSubscription, ThreadSubscriptions } from "threadline";
import { fullTime, clock, count } from "../time.ts";

/** The subscriptions, and how far each is behind the tail. */
export function SubscriptionTable({ page, tail }: { readonly page: ThreadSubscriptions; readonly tail: number }) {
  const { nodes, count: all, subscriptions } = page;
  if (subscriptions.length === 0)
    return <p className="soft">None. Readers can load new events later, from their cursor.</p>;
  return (
    <>
      <div className="table-scroll" tabIndex={0} role="group" aria-label="Subscriptions">
        <table className="subscriptions">
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">How</th>
              <th scope="col">Cursor</th>
              <th scope="col">Behind</th>
              <th scope="col">Since</th>
              {nodes > 1 && <th scope="col">Node</th>}
            </tr>
          </thead>
          <tbody>
            {subscriptions.map((each, index) => (
              <Line key={`${each.nodeId} ${each.since} ${index}`} subscribed={each} tail={tail} withNode={nodes > 1} />
            ))}
          </tbody>
        </table>
      </div>
      {all > subscriptions.length && <p className="soft">And {count(all - subscriptions.length)} more.</p>}
      {nodes > 1 && <p className="soft">{nodes} nodes have answered.</p>}
    </>
  );
}

function Line(props: { readonly subscribed: ThreadSubscription; readonly tail: number; readonly withNode: boolean }) {
  const { subscribed, tail, withNode } = props;
  const { transport, userId, credential, runId, cursor, since, nodeId } = subscribed;
  const behind = Math.max(0, tail - cursor);
  return (
    <tr>
      <td>
        <span className="who">{userId ?? "the whole project"}</span>
        <span className="soft">{credential}</span>
      </td>
      <td>
        {transport}
        {runId !== null && (
          <span className="soft" title={runId}>
            one run
          </span>
        )}
      </td>
      <td className="number">{count(cursor)}</td>
      <td className="number">
        {behind === 0 ? "–" : count(behind)}
        {behind > 0 && (
          <meter
            min={0}
            max={Math.max(tail, 1)}
            optimum={0}
            low={tail * 0.05}
            high={tail * 0.5}
            value={behind}
            aria-label={`${behind} of ${tail} behind`}
          />
        )}
      </td>
      <td>
        <time dateTime={since} title={fullTime(since)}>
          {clock(since).slice(0, 8)}
        </time>
      </td>
      {withNode && (
        <td>
          <code>{nodeId}</code>
        </td>
      )}
    </tr>
  );
}
