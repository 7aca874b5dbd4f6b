// Whether the server admits these credentials.

import { useCallback, useEffect, useState } from "react";
import { isProblem, type Threadline } from "threadline";
import { messageOf } from "./parts/failure.ts";

export type Admission =
  | { readonly state: "asking" }
  | { readonly state: "in" }
  | { readonly state: "refused"; readonly refusal: string }
  /** The server is unreachable or fails: the page keeps retrying. */
  | { readonly state: "unknown"; readonly failure: string };

/** An API key without a user sees no list: that is asked for, too. */
const REFUSALS = ["unauthorized", "forbidden", "forbidden-token", "project-not-found", "invalid-request"] as const;

const ASKING: Admission = { state: "asking" };

/** Requests the smallest list there is; and again, on demand. */
export function useAdmission(client: Threadline): readonly [Admission, () => void] {
  const [known, setKnown] = useState<{ client: Threadline; admission: Admission }>({ client, admission: ASKING });
  const [count, setCount] = useState(0);
  useEffect(() => {
    const leave = new AbortController();
    const tell = (admission: Admission) => leave.signal.aborted || setKnown({ client, admission });
    client.threads.list({ limit: 1, signal: leave.signal }).then(
      () => tell({ state: "in" }),
      (error: unknown) => tell(judged(error)),
    );
    return () => leave.abort();
  }, [client, count]);
  // Admitted credentials can become invalid: a revoked key, an expired token.
  useEffect(
    () =>
      client.onStatus((status) => {
        if (status.state === "failed") setKnown({ client, admission: judged(status.error) });
      }),
    [client],
  );
  const again = useCallback(() => setCount((count) => count + 1), []);
  return [known.client === client ? known.admission : ASKING, again];
}

function judged(error: unknown): Admission {
  // The request itself was right: what it lacks is the user of an API key.
  const message = isProblem(error, "invalid-request")
    ? "An API key shows the threads of one user: say whose."
    : isProblem(error, "unauthorized")
      ? "The key or token is not valid. It may be wrong, revoked or expired."
      : messageOf(error);
  const isRefusal = REFUSALS.some((slug) => isProblem(error, slug));
  return isRefusal ? { state: "refused", refusal: message } : { state: "unknown", failure: message };
}
