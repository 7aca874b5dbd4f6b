import { signedIn } from "../../../lib/session";
import { THREADLINE_URL } from "../../../lib/threadline";

const SECONDS = 300;

/** A token that lets the browser act as its user. The backend's key stays here. */
export async function POST(): Promise<Response> {
  const userId = await signedIn();
  if (!userId) return new Response("nobody is signed in", { status: 401 });
  return fetch(`${THREADLINE_URL}/v1/tokens`, {
    method: "POST",
    headers: { Authorization: `Bearer ${process.env.BACKEND_KEY}`, "Content-Type": "application/json" },
    body: JSON.stringify({ userId, expiresInSeconds: SECONDS }),
  });
}
