import { redirect } from "next/navigation";
import { toUIMessages } from "threadline/ai-sdk";
import { signedIn } from "../../../lib/session";
import { clientOf, THREADLINE_URL } from "../../../lib/threadline";
import { Chat } from "./Chat";

export default async function ChatPage({ params }: { params: Promise<{ chatId: string }> }) {
  const user = await signedIn();
  if (!user) redirect("/");
  const { chatId } = await params;
  const { messages } = await toUIMessages(clientOf(user), "demo", chatId);
  return <Chat url={THREADLINE_URL} chatId={chatId} messages={messages} />;
}
