import { type RefObject, useLayoutEffect, useRef } from "react";

/** Width of a letter, height of a line and gap between two blocks, about, in the letters' own size. */
const LETTER_EM = 0.5;
const LINE_EM = 1.55;
const GAP_EM = 0.8;

/**
 * Readies the parts of a long text that are far away, which are its last children: they have the height that is expected of them
 * until they come near, and what one reads stays in its place when they get their own. That they are not laid out is up to the
 * styles.
 *
 * The list of messages keeps its place for messages that are above the view as a whole.
 */
export function useFarParts(text: RefObject<HTMLElement | null>, count: number): void {
  const observer = useRef<ResizeObserver>(undefined);
  const known = useRef(0);
  const isLong = count > 0;
  useLayoutEffect(() => {
    const scroller = text.current?.closest(".messages");
    if (!isLong || !text.current || !scroller) return;
    observer.current = new ResizeObserver(steady(text.current, scroller));
    known.current = 0;
    return () => {
      observer.current?.disconnect();
      observer.current = undefined;
    };
  }, [text, isLong]);
  useLayoutEffect(() => {
    const { current } = text;
    if (!current || !observer.current || count === known.current) return;
    const size = parseFloat(getComputedStyle(current).fontSize);
    const most = Math.max(1, current.clientWidth / (LETTER_EM * size));
    const parts = [...current.children].slice(-count);
    for (const part of parts.slice(known.current)) {
      (part as HTMLElement).style.containIntrinsicBlockSize = `auto ${Math.round(heightOf(part, most) * size)}px`;
      observer.current.observe(part);
    }
    known.current = count;
  });
}

/** Height of a part, about, in the letters' own size. `most`: letters in a line. */
function heightOf(part: Element, most: number): number {
  const blocks = part.children.length > 0 ? [...part.children] : [part];
  return blocks.reduce((sum, block) => sum + linesOf(block, most) * LINE_EM + GAP_EM, -GAP_EM);
}

function linesOf(block: Element, most: number): number {
  const text = block.textContent;
  const breaks = block.querySelectorAll("li, tr").length || text.split("\n").length;
  return Math.max(breaks, Math.ceil(text.length / most));
}

/** Moves the view with parts above it that get another height. */
function steady(text: HTMLElement, scroller: Element): ResizeObserverCallback {
  const heights = new WeakMap<Element, number>();
  return (entries) => {
    const view = scroller.getBoundingClientRect().top;
    const whole = text.getBoundingClientRect();
    let moved = 0;
    let above = 0;
    for (const { target } of entries) {
      if (!target.isConnected) continue;
      const { bottom, height } = target.getBoundingClientRect();
      const delta = height - (heights.get(target) ?? height);
      heights.set(target, height);
      // The end that the part had before any height changed.
      if (bottom - moved - delta <= view) above += delta;
      moved += delta;
    }
    if (above !== 0 && whole.top < view && whole.bottom > view) scroller.scrollTop += above;
  };
}
