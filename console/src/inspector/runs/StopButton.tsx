import { CircleStop } from "lucide-react";
import { useState } from "react";
import type { Run } from "threadline";
import { Button } from "../../parts/Button.tsx";
import { useNotices } from "../../parts/notices.tsx";
import { READ_ONLY, useMayWrite } from "../../rights.ts";
import type { ThreadLog } from "../log/thread-log.ts";

/** Asks a run to stop. */
export function StopButton({ run, log }: { readonly run: Run; readonly log: ThreadLog }) {
  const { fail } = useNotices();
  const mayWrite = useMayWrite();
  const [isBusy, setBusy] = useState(false);
  const stop = async () => {
    setBusy(true);
    try {
      log.runs.take(await log.ref.stop(run.runId));
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button
      disabled={isBusy || run.stopRequested || !mayWrite}
      title={mayWrite ? undefined : READ_ONLY}
      onClick={() => void stop()}
    >
      <CircleStop aria-hidden="true" />
      {run.stopRequested ? "Stop requested" : "Stop the run"}
    </Button>
  );
}
