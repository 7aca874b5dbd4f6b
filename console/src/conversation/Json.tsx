import { memo, type ReactNode } from "react";

/** More is cut: a page is no place for megabytes. The inspector has all of it. */
const MAX_SHOWN = 20_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A value as JSON, or a text that is JSON or about to become it, in colours. */
export const Json = memo(function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  const text = typeof value === "string" ? pretty(value) : (JSON.stringify(value, null, 2) ?? "");
  const isCut = text.length > MAX_SHOWN;
  return (
    <pre className="json" tabIndex={0} role="group" aria-label={label} dir="ltr">
      <code>{coloured(isCut ? text.slice(0, MAX_SHOWN) : text)}</code>
      {isCut && `\n… ${text.length - MAX_SHOWN} more characters`}
    </pre>
  );
});

/** JSON with indentation; what is not JSON (yet) as it is. Numbers that JavaScript would change are left alone. */
export function pretty(text: string): string {
  const trimmed = text.trimStart();
  if (!/^[[{]/.test(trimmed)) return text;
  try {
    const value: unknown = JSON.parse(text);
    return /\d{16}/.test(text) ? text : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function coloured(text: string): ReactNode[] {
  if (!/^\s*[[{"]/.test(text)) return [text];
  const parts: ReactNode[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon] = match;
    if (match.index > at) parts.push(text.slice(at, match.index));
    const kind = string === undefined ? "number" : colon === undefined ? "string" : "key";
    parts.push(
      <span key={match.index} className={`tinted-${kind}`}>
        {string ?? whole}
      </span>,
    );
    if (colon !== undefined) parts.push(colon);
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}
