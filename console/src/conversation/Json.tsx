import { memo, useMemo } from "react";
import { JsonLine } from "../inspector/json/JsonText.tsx";
import { printed } from "../inspector/json/print.ts";
import { jsonLines, type Line } from "../inspector/json/tokens.ts";

/** More is cut: a page is no place for megabytes. The inspector has all of it. */
const MOST_SHOWN = 20_000;
const MOST_LINES = 1_000;

/** A value as JSON, or a text that is JSON, in lines and colours; any other text, or JSON that is still growing, as it is. */
export const Json = memo(function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  const { lines, text, isCut } = useMemo(() => shownOf(value), [value]);
  return (
    <div className="json" tabIndex={0} role="group" aria-label={label} dir="ltr">
      {lines ? lines.map((line, at) => <JsonLine key={at} line={line} />) : text}
      {isCut && <p className="token-cut">… and more: the inspector has all of it.</p>}
    </div>
  );
});

interface Shown {
  /** Of JSON. */
  readonly lines?: readonly Line[];
  /** Of anything else. */
  readonly text?: string;
  readonly isCut: boolean;
}

/** What is shown of a value. */
export function shownOf(value: unknown): Shown {
  const { json, isCut } =
    typeof value === "string"
      ? { json: value.slice(0, MOST_SHOWN), isCut: value.length > MOST_SHOWN }
      : printed(value, MOST_SHOWN);
  if (typeof value === "string" && !isJson(value)) return { text: json, isCut };
  const lines = jsonLines(json);
  return { lines: lines.slice(0, MOST_LINES), isCut: isCut || lines.length > MOST_LINES };
}

/** Whether a text is an object or a list of JSON. */
function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
