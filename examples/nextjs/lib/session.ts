import { createHmac, timingSafeEqual } from "node:crypto";
import { cookies } from "next/headers";

const COOKIE = "session";
const SECONDS = 7 * 24 * 3600;

function signature(user: string): string {
  return createHmac("sha256", process.env.SESSION_SECRET!).update(user).digest("base64url");
}

/** The user of the request; undefined if nobody is signed in. */
export async function signedIn(): Promise<string | undefined> {
  const [user, given] = (await cookies()).get(COOKIE)?.value.split(".") ?? [];
  if (!user || !given) return undefined;
  const [one, other] = [Buffer.from(given), Buffer.from(signature(user))];
  return one.length === other.length && timingSafeEqual(one, other) ? Buffer.from(user, "base64url").toString() : undefined;
}

/** A real application checks a password, or asks an identity provider, before it calls this. */
export async function signIn(name: string): Promise<void> {
  const user = Buffer.from(name).toString("base64url");
  (await cookies()).set(COOKIE, `${user}.${signature(user)}`, { httpOnly: true, sameSite: "lax", maxAge: SECONDS });
}
