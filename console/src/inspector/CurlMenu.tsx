import { Download, SquareTerminal, Terminal } from "lucide-react";
import { useRef, useState } from "react";
import { useThread } from "threadline/react";
import { IconButton } from "../parts/Button.tsx";
import { copyText } from "../parts/copy.ts";
import { Menu } from "../parts/Menu.tsx";
import { useNotices } from "../parts/notices.tsx";
import { useAsker } from "./asker.ts";
import { commands } from "./curl.ts";
import { fileName, ndjson, save } from "./download.ts";
import type { LogSnapshot, ThreadLog } from "./log/thread-log.ts";
import { useRuns } from "./log/use-log.ts";
import type { Place } from "./place.ts";

/** What can be taken away: requests as commands, and the log as a file. */
export function CurlMenu(props: { readonly place: Place; readonly log: ThreadLog; readonly snapshot: LogSnapshot }) {
  const { place, log, snapshot } = props;
  const { threadId, at, event } = place;
  const asker = useAsker();
  const { tell, fail } = useNotices();
  const { thread } = useThread(threadId);
  const active = useRuns(log).runs.find(({ endedAt }) => endedAt === null);
  const after = event !== undefined ? event - 1 : (at ?? 0);
  const { epoch } = snapshot;
  const all = commands(asker, { threadId, agentId: thread?.agentId ?? null, runId: active?.runId, at, after, epoch });
  return (
    <>
      <Menu
        label="Copy as curl"
        icon={<SquareTerminal />}
        items={all.map(({ name, text }) => ({
          label: name,
          icon: <Terminal />,
          onSelect: () => void copyText(text).then(() => tell(`Copied as curl: ${name}`), fail),
        }))}
      />
      {snapshot.state === "ready" && <DownloadButton log={log} tail={snapshot.tail} />}
    </>
  );
}

/** Saves the log as NDJSON. */
function DownloadButton({ log, tail }: { readonly log: ThreadLog; readonly tail: number }) {
  const { fail } = useNotices();
  const [seq, setSeq] = useState<number>();
  const leave = useRef<AbortController>(undefined);
  const begin = async () => {
    const { signal } = (leave.current = new AbortController());
    const { epoch } = log.getSnapshot();
    setSeq(0);
    try {
      const lines = log.ref.lines({ epoch, signal });
      save(await ndjson(lines, tail, setSeq), fileName(log.ref.threadId));
    } catch (error) {
      if (!signal.aborted) fail(error);
    } finally {
      setSeq(undefined);
    }
  };
  if (seq === undefined) {
    return (
      <IconButton label="Download the log (NDJSON)" disabled={tail === 0} onClick={() => void begin()}>
        <Download />
      </IconButton>
    );
  }
  const share = tail === 0 ? 0 : Math.floor((100 * seq) / tail);
  return (
    <IconButton label={`Downloading, ${share} %. Cancel`} onClick={() => leave.current?.abort()}>
      <span className="download-share">{share}%</span>
    </IconButton>
  );
}
