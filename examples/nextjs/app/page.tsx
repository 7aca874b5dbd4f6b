import { randomUUID } from "node:crypto";
import { clientOf } from "../lib/threadline";
import { signedIn } from "../lib/session";

export default async function Home() {
  const user = await signedIn();
  if (!user) {
    return (
      <form action="/api/sign-in" method="post">
        <input name="user" aria-label="Name" placeholder="Your name" required autoFocus />
        <button>Sign in</button>
      </form>
    );
  }
  const { threads } = await clientOf(user).threads.list();
  return (
    <nav>
      <a href={`/${randomUUID()}`}>New thread</a>
      <a href={`/ai/${randomUUID()}`}>New chat</a>
      {threads.map(({ threadId, agentId, name }) => (
        // A chat of the AI SDK is a thread with an agent.
        <a key={threadId} href={agentId ? `/ai/${threadId}` : `/${threadId}`}>
          {name ?? threadId}
        </a>
      ))}
    </nav>
  );
}
