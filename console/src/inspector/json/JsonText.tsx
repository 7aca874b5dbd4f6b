import { memo, useMemo } from "react";
import { VList } from "virtua";
import { jsonLines, type Line } from "./tokens.ts";

/** What has more lines is only made where it is seen. */
const MOST_LINES = 300;

/** JSON, in lines and colours. */
export function JsonText({ json, label }: { readonly json: string; readonly label: string }) {
  const lines = useMemo(() => jsonLines(json), [json]);
  if (lines.length > MOST_LINES) {
    return (
      <VList className="json-text" role="region" aria-label={label} tabIndex={0} data={lines}>
        {(line, index) => <JsonLine key={index} line={line} />}
      </VList>
    );
  }
  return (
    <div className="json-text" role="region" aria-label={label} tabIndex={0}>
      {lines.map((line, index) => (
        <JsonLine key={index} line={line} />
      ))}
    </div>
  );
}

/** A line, indented by its depth. */
export const JsonLine = memo(function JsonLine({ line: { depth, tokens } }: { readonly line: Line }) {
  return (
    // The spaces are for selected and copied text.
    <div className="json-line" style={{ paddingInlineStart: `${2 * depth + 2}ch`, textIndent: `-${2 * depth + 2}ch` }}>
      {"  ".repeat(depth)}
      {tokens.map(({ kind, text }, index) =>
        kind === "mark" ? (
          text
        ) : (
          <span key={index} className={`token-${kind}`}>
            {text}
          </span>
        ),
      )}
    </div>
  );
});
