import type { MarkedToken, Token } from "marked";
import { memo, useRef } from "react";
import { useFarParts } from "../far.ts";
import { type Blocks, blocksOf, partsOf } from "./blocks.ts";
import { Block } from "./tokens.tsx";

/**
 * A text of a model as markdown, all of it. It is hostile input: HTML in it is text, links lead to the web or to nowhere, images are
 * not loaded. While it grows only its last block is read and rendered again.
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
  const { near, far } = partsOf(blocks.tokens);
  const own = useRef<HTMLDivElement>(null);
  useFarParts(own, far.length);
  return (
    <div ref={own} className="markdown" dir="auto">
      {near.map((token, at) => (
        <MemoBlock key={at} token={token} top={top} />
      ))}
      {far.map((tokens, at) => (
        <Part key={`part ${at}`} tokens={tokens} top={top} />
      ))}
    </div>
  );
});

const MemoBlock = memo(Block);

/** Some blocks of a long text, which are laid out together. */
const Part = memo(
  function Part({ tokens, top }: { readonly tokens: readonly Token[]; readonly top: number }) {
    return (
      <div className="markdown-part">
        {tokens.map((token, at) => (
          <MemoBlock key={at} token={token} top={top} />
        ))}
      </div>
    );
  },
  (one, other) =>
    one.top === other.top &&
    one.tokens.length === other.tokens.length &&
    one.tokens.every((token, at) => token === other.tokens[at]),
);

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
