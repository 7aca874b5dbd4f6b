import { type FormEvent, useState } from "react";
import { Button } from "./parts/Button.tsx";
import { messageOf } from "./parts/failure.ts";
import { Logo } from "./parts/Logo.tsx";
import type { Credentials } from "./session.ts";
import { useSession } from "./session-context.ts";

/** Asks for an API key or a token, where the server wants one. */
export function SignIn({ refusal }: { readonly refusal: string }) {
  const { credentials, signIn } = useSession();
  const hasTried = credentials.apiKey !== undefined || credentials.token !== undefined;
  const [failure, setFailure] = useState<string | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    try {
      signIn(read(form), form.has("remember"));
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  const shown = failure ?? (hasTried ? refusal : null);
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <h1>
          <Logo size={28} /> Threadline
        </h1>
        <p>This server requires a credential. It is sent to this server only.</p>
        <label className="field">
          <span>API key or token</span>
          <input
            className="input mono"
            name="secret"
            type="password"
            required
            autoComplete="current-password"
            autoFocus
          />
        </label>
        <label className="field">
          <span>User</span>
          <input className="input" name="user" defaultValue={credentials.user} autoComplete="username" />
          <small>The user whose threads an API key shows. A token contains its user.</small>
        </label>
        <label className="field">
          <span>Project</span>
          <input className="input" name="project" defaultValue={credentials.project} placeholder="default" />
          <small>Required only with the operator’s key.</small>
        </label>
        <label className="check">
          <input type="checkbox" name="remember" /> Remember on this device
        </label>
        {shown && <p role="alert">{shown}</p>}
        <Button type="submit" tone="primary">
          Open the console
        </Button>
      </form>
    </main>
  );
}

/** A token is a JWT: three parts. Anything else is a key. */
function read(form: FormData): Credentials {
  const [secret = "", user = "", project = ""] = ["secret", "user", "project"].map((name) =>
    String(form.get(name) ?? "").trim(),
  );
  const isToken = /^[\w-]+\.[\w-]+\.[\w-]+$/.test(secret);
  return {
    ...(isToken ? { token: secret } : { apiKey: secret }),
    ...(user && !isToken && { user }),
    ...(project && { project }),
  };
}
