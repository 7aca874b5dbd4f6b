import { memo, useRef } from "react";
import { useFarParts } from "./far.ts";
import { LONG, piecesOf } from "./pieces.ts";

/** A text as it is written, all of it. */
export const Plain = memo(function Plain({ text }: { readonly text: string }) {
  const own = useRef<HTMLParagraphElement>(null);
  const pieces = text.length > LONG ? piecesOf(text) : [];
  useFarParts(own, pieces.length);
  return (
    <p ref={own} className="plain" dir="auto">
      {pieces.length > 0 ? pieces.map((piece, at) => <Piece key={at} text={piece} />) : text}
    </p>
  );
});

const Piece = memo(function Piece({ text }: { readonly text: string }) {
  return <span className="plain-piece">{text}</span>;
});
