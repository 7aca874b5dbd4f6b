import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

/** Nearer to the end than this counts as being there. */
const NEAR_PX = 48;

/**
 * Keeps a scroller at its end while what is in it grows, as long as one is at the end; scrolling up lets go, scrolling back to the
 * end, or `jump`, takes hold again.
 */
export function useStickToEnd(scroller: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>) {
  const [isAtEnd, setAtEnd] = useState(true);
  const sticks = useRef(true);
  const last = useRef({ top: 0, height: 0, view: 0 });

  const hold = useCallback(() => {
    const { current } = scroller;
    if (!current) return;
    if (sticks.current) current.scrollTop = current.scrollHeight;
    setAtEnd(sticks.current || distance(current) < NEAR_PX);
  }, [scroller]);

  useEffect(() => {
    const [outer, inner] = [scroller.current, content.current];
    if (!outer || !inner) return;
    const scrolled = () => {
      const { scrollTop: top, scrollHeight: height, clientHeight: view } = outer;
      const before = last.current;
      last.current = { top, height, view };
      // What shrinks moves the place, too: then nobody has scrolled.
      const hasMovedUp = top < before.top - 1 && height >= before.height && view <= before.view;
      if (hasMovedUp) sticks.current = false;
      else if (distance(outer) < NEAR_PX && top > before.top) sticks.current = true;
      setAtEnd(sticks.current || distance(outer) < NEAR_PX);
    };
    const resized = new ResizeObserver(hold);
    resized.observe(inner);
    resized.observe(outer);
    outer.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      resized.disconnect();
      outer.removeEventListener("scroll", scrolled);
    };
  }, [scroller, content, hold]);

  const jump = useCallback(() => {
    sticks.current = true;
    hold();
  }, [hold]);
  return { isAtEnd, jump };
}

function distance({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}
