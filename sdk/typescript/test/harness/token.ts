import { createHmac } from "node:crypto";

export interface Claims {
  readonly sub: string;
  /** Seconds since 1970. */
  readonly iat?: number;
  readonly exp: number;
  readonly scope?: string;
}

/** A user's token, signed like in an application's backend with the secret of the project (RFC 7519, HS256). */
export function sign(secret: string, claims: Claims, project = "default"): string {
  const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const body = `${encode({ alg: "HS256", typ: "JWT" })}.${encode({ iss: project, aud: "threadline", ...claims })}`;
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}
