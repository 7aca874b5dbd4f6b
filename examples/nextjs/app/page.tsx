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
      {threads.map(({ threadId, name }) => (
        <a key={threadId} href={`/${threadId}`}>
          {name ?? threadId}
        </a>
      ))}
    </nav>
  );
}
