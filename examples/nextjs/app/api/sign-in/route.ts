import { signIn } from "../../../lib/session";

export async function POST(request: Request): Promise<Response> {
  const user = (await request.formData()).get("user");
  if (typeof user === "string" && user) await signIn(user);
  return new Response(null, { status: 303, headers: { Location: "/" } });
}
