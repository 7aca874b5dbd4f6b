import { redirect } from "next/navigation";
import { dehydrate } from "threadline/react/server";
import { signedIn } from "../../lib/session";
import { clientOf, THREADLINE_URL } from "../../lib/threadline";
import { Chat } from "./Chat";

export default async function ThreadPage({ params }: { params: Promise<{ threadId: string }> }) {
  const user = await signedIn();
  if (!user) redirect("/");
  const { threadId } = await params;
  // While Threadline is away, the page is shown without messages, and loads them itself.
  const initial = await dehydrate(clientOf(user), [threadId]).catch(() => undefined);
  return <Chat url={THREADLINE_URL} threadId={threadId} initial={initial} />;
}
