import { Archive, ArchiveRestore, Copy, Link, Pencil, Trash2 } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Thread } from "threadline";
import { useThreadline } from "threadline/react";
import { copyText } from "../parts/copy.ts";
import { Dialog } from "../parts/Dialog.tsx";
import type { MenuItem } from "../parts/Menu.tsx";
import { useNotices } from "../parts/notices.tsx";
import { READ_ONLY, useMayWrite } from "../rights.ts";
import { go, href, parse } from "../route.ts";
import { nameOf } from "./name.ts";

/** Names are cut by the server; longer ones are not typed. */
const MAX_NAME = 200;

/** What can be done to a thread as a whole. */
export interface ThreadActions {
  rename(thread: Thread): void;
  /** Asks first. */
  remove(thread: Thread): void;
  items(thread: Thread, options?: { readonly withLink?: boolean }): readonly MenuItem[];
}

/** The actions, and the dialogs that they open, which have to be rendered. */
export function useThreadActions(): readonly [ThreadActions, ReactNode] {
  const client = useThreadline();
  const { tell, fail } = useNotices();
  const mayWrite = useMayWrite();
  const [asked, setAsked] = useState<{ what: "rename" | "remove"; thread: Thread } | null>(null);
  const actions = useMemo((): ThreadActions => {
    const copy = (text: string, what: string) => copyText(text).then(() => tell(`${what} copied.`), fail);
    const archive = async (thread: Thread) => {
      const ref = client.thread(thread.threadId);
      await (thread.archived ? ref.unarchive() : ref.archive());
      tell(`“${nameOf(thread)}” is ${thread.archived ? "back in the list" : "archived"}.`);
    };
    // Also by keys, and by the name in the header.
    const ask = (what: "rename" | "remove", thread: Thread) =>
      mayWrite ? setAsked({ what, thread }) : tell(READ_ONLY);
    const rename = (thread: Thread) => ask("rename", thread);
    const remove = (thread: Thread) => ask("remove", thread);
    const blocked = mayWrite ? undefined : READ_ONLY;
    const items = (thread: Thread, { withLink = false } = {}): MenuItem[] => {
      const { threadId, archived } = thread;
      const link = () => new URL(href({ name: "thread", threadId }), location.href).href;
      return [
        { label: "Rename", icon: <Pencil />, blocked, onSelect: () => rename(thread) },
        {
          label: archived ? "Unarchive" : "Archive",
          icon: archived ? <ArchiveRestore /> : <Archive />,
          blocked,
          onSelect: () => void archive(thread).catch(fail),
        },
        { label: "Copy id", icon: <Copy />, onSelect: () => void copy(threadId, "The id is") },
        ...(withLink ? [{ label: "Copy link", icon: <Link />, onSelect: () => void copy(link(), "The link is") }] : []),
        { label: "Delete", icon: <Trash2 />, tone: "danger", blocked, onSelect: () => remove(thread) },
      ];
    };
    return { rename, remove, items };
  }, [client, tell, fail, mayWrite]);
  const close = () => setAsked(null);
  return [actions, asked && <Asked key={asked.thread.threadId} {...asked} onClose={close} />];
}

function Asked(props: { what: "rename" | "remove"; thread: Thread; onClose: () => void }) {
  return props.what === "rename" ? <Rename {...props} /> : <Remove {...props} />;
}

function Rename({ thread, onClose }: { readonly thread: Thread; readonly onClose: () => void }) {
  const ref = useThreadline().thread(thread.threadId);
  // The name that this one is to take the place of, as far as its author knows. The server takes any: it is asked just before.
  const known = useRef(thread.name);
  const rename = async (form: FormData) => {
    const wanted = String(form.get("name") ?? "").trim() || null;
    const { name } = await ref.get();
    if (name !== known.current && name !== wanted) {
      known.current = name;
      throw new Error(
        `Meanwhile the thread ${name === null ? "has lost its name" : `was named “${name}”`}. ` +
          "Rename replaces that name with yours; Cancel keeps it.",
      );
    }
    // Also where it is the same: a name that was made up becomes a person's.
    await ref.rename(wanted);
  };
  return (
    <Dialog title="Rename the thread" confirm="Rename" onConfirm={rename} onClose={onClose}>
      <label className="field">
        <span>Name</span>
        <input
          className="input"
          name="name"
          defaultValue={thread.name ?? ""}
          maxLength={MAX_NAME}
          autoFocus
          autoComplete="off"
          onFocus={(event) => event.currentTarget.select()}
        />
        <small>Leave empty to remove the name.</small>
      </label>
    </Dialog>
  );
}

/** The ids of the other branches of a conversation; undefined until they are read. */
function useOthers({ threadId, branched }: Thread): readonly string[] | undefined {
  const client = useThreadline();
  const [others, setOthers] = useState<readonly string[] | undefined>(branched ? undefined : []);
  useEffect(() => {
    if (!branched) return;
    const leave = new AbortController();
    const { signal } = leave;
    client
      .thread(threadId)
      .branches({ signal })
      .then((branches) => setOthers(branches.map((branch) => branch.threadId).filter((id) => id !== threadId)))
      // The dialog then speaks of the branches without their number.
      .catch(() => {});
    return () => leave.abort();
  }, [client, threadId, branched]);
  return others;
}

function Remove({ thread, onClose }: { readonly thread: Thread; readonly onClose: () => void }) {
  const client = useThreadline();
  const { tell } = useNotices();
  const others = useOthers(thread);
  const remove = async () => {
    const route = parse(location.hash);
    await client.thread(thread.threadId).delete({ branches: true });
    tell(`“${nameOf(thread)}” is deleted.`);
    const gone = [thread.threadId, ...(others ?? [])];
    if (route.name === "thread" && gone.includes(route.threadId)) go({ name: "home" }, { replace: true });
  };
  return (
    <Dialog title="Delete the thread?" confirm="Delete" tone="danger" onConfirm={remove} onClose={onClose}>
      <p>
        “{nameOf(thread)}” and all of its events will be gone for ever, for everybody.
        {thread.activeRun && " Its active run will be ended."}
      </p>
      {othersToo(others)}
    </Dialog>
  );
}

/** Names the other branches that are deleted with a thread; nothing if there are none. */
function othersToo(others: readonly string[] | undefined): ReactNode {
  if (others?.length === 0) return null;
  const count = others === undefined ? "All" : others.length === 1 ? "The other" : `All ${others.length} other`;
  const noun = others?.length === 1 ? "branch" : "branches";
  return (
    <p>
      {count} {noun} of the conversation, from edits and regenerated answers, will be gone, too.
    </p>
  );
}
