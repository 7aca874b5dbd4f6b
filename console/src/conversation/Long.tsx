import { type ReactNode, useState } from "react";
import { Button } from "../parts/Button.tsx";

/** A text that is longer is shown in part: laying out a million characters stops the page for seconds. */
const LONG = 20_000;
const SHOWN = 8_000;

/** A text, and of one that is very long the beginning, until all of it is wanted. One that grows is shown to its end. */
export function Long(props: {
  readonly text: string;
  readonly isGrowing?: boolean;
  /** Where it is cut, if elsewhere: less room wants shorter texts. */
  readonly most?: number;
  readonly children: (text: string) => ReactNode;
}) {
  const { text, isGrowing = false, most = LONG, children } = props;
  const [isWhole, setWhole] = useState(false);
  if (text.length <= most || isWhole || isGrowing) return children(text);
  return (
    <>
      {children(`${start(text, Math.min(SHOWN, most))}…`)}
      <Button className="show-all" onClick={() => setWhole(true)}>
        Show all {text.length.toLocaleString("en")} characters
      </Button>
    </>
  );
}

/** Not cut inside of a character. */
function start(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
