import type { MarkedToken, Token } from "marked";
import { memo, useRef } from "react";
import { type Blocks, blocksOf } from "./blocks.ts";
import { Block } from "./tokens.tsx";

/**
 * A text of a model as markdown. It is hostile input: HTML in it is text, links lead to the web or to nowhere, images are not
 * loaded. While it grows only its last block is read and rendered again.
 */
export const Markdown = memo(function Markdown({
  text,
  isGrowing = false,
}: {
  readonly text: string;
  readonly isGrowing?: boolean;
}) {
  const before = useRef<Blocks | undefined>(undefined);
  const blocks = safely(text, isGrowing ? before.current : undefined);
  before.current = blocks;
  const top = highest(blocks.tokens);
  return (
    <div className="markdown" dir="auto">
      {blocks.tokens.map((token, at) => (
        <MemoBlock key={at} token={token} top={top} />
      ))}
    </div>
  );
});

const MemoBlock = memo(Block);

/** The depth of the highest heading: no level is left out below the page's own. */
function highest(tokens: readonly Token[]): number {
  const depths = (tokens as readonly MarkedToken[]).map((token) => (token.type === "heading" ? token.depth : 6));
  return Math.min(6, ...depths);
}

/** What the lexer cannot read is shown as it is. */
function safely(text: string, before: Blocks | undefined): Blocks {
  try {
    return blocksOf(text, before);
  } catch {
    const token: Token = { type: "plain", raw: text };
    return { text, tokens: [token] };
  }
}
