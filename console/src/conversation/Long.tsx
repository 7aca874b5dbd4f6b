import { type ReactNode, useState } from "react";
import { Button } from "../parts/Button.tsx";

/** A text of no more than `most` characters, and of a longer one the beginning, until all of it is wanted. */
export function Long(props: {
  readonly text: string;
  readonly most: number;
  readonly children: (text: string) => ReactNode;
}) {
  const { text, most, children } = props;
  const [isWhole, setWhole] = useState(false);
  if (text.length <= most || isWhole) return children(text);
  return (
    <>
      {children(`${start(text, most)}…`)}
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
