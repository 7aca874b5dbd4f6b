import { memo } from "react";
import { CopyButton } from "../CopyButton.tsx";
import { LONG, piecesOf } from "../pieces.ts";

/** A block of code, with its language and a button that copies it. */
export function Code({ text, language }: { readonly text: string; readonly language: string }) {
  return (
    <figure className="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={text} label="Copy the code" />
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code>{text.length > LONG ? piecesOf(text).map((piece, at) => <Lines key={at} text={piece} />) : text}</code>
      </pre>
    </figure>
  );
}

/** Lines of code that are laid out when they come near; until then as high as they will be. */
const Lines = memo(function Lines({ text }: { readonly text: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  const widest = Math.max(...lines.map(({ length }) => length));
  return (
    <span className="code-lines" style={{ containIntrinsicSize: `${widest}ch calc(${lines.length} * 1lh)` }}>
      {text}
    </span>
  );
});
