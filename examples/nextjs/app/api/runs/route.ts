import { after } from "next/server";
import { isProblem, ThreadlineError } from "threadline";
import { answer } from "../../../lib/model";
import { signedIn } from "../../../lib/session";
import { clientOf } from "../../../lib/threadline";

/** Says something in a thread, and streams the answer of the model into it. */
export async function POST(request: Request): Promise<Response> {
  const user = await signedIn();
  if (!user) return new Response("nobody is signed in", { status: 401 });
  const { threadId, text } = (await request.json()) as { threadId: string; text: string };
  const client = clientOf(user);
  const start = () =>
    new Promise<void>((resolve, reject) => {
      const run = client.thread(threadId).run({ messages: [{ role: "user", content: text }] }, async (run) => {
        resolve();
        const message = run.text();
        for await (const delta of answer(text, run.signal)) await message.write(delta);
      });
      run.catch(reject);
      // The run goes on after the response, also if the browser leaves.
      after(() => run.catch((error: unknown) => console.error("a run has failed:", error)));
    });
  try {
    await start().catch(async (error: unknown) => {
      if (!isProblem(error, "thread-not-found")) throw error;
      await client.threads.create({ threadId });
      await start();
    });
    return new Response(null, { status: 202 });
  } catch (error) {
    if (!(error instanceof ThreadlineError)) throw error;
    return new Response(error.message, { status: isProblem(error, "run-active") ? 409 : 502 });
  }
}
