import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

/** Nearer to the end than this counts as being there. */
const NEAR_PX = 48;
/** Scrolling within this time after an input counts as the user's: browsers scroll smoothly. */
const HAND_MS = 400;
/** The keys that scroll up. */
const UPWARDS = new Set(["ArrowUp", "PageUp", "Home", " "]);

/**
 * Keeps a scroller at its end while its content grows. Scrolling up releases it; scrolling back to the end, or `jump`, attaches it
 * again.
 *
 * A position that moved up does not prove that the user scrolled: where content shrinks the browser moves it, and a moment later the
 * content may be as large as before, or larger. So the move counts only if no size has changed since the last check and no element was
 * added or removed in this frame, or if the user has just used the wheel, the screen or the keys. `release` is for positions that the
 * page itself chooses.
 */
export function useStickToEnd(scroller: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>) {
  const [isAtEnd, setAtEnd] = useState(true);
  const sticks = useRef(true);
  const last = useRef({ top: 0, height: 0, view: 0 });

  const hold = useCallback(() => {
    const { current } = scroller;
    if (!current) return;
    if (sticks.current) current.scrollTop = current.scrollHeight;
    last.current = look(current);
    setAtEnd(sticks.current || distance(current) < NEAR_PX);
  }, [scroller]);

  useEffect(() => {
    const [outer, inner] = [scroller.current, content.current];
    if (!outer || !inner) return;
    let handled = Number.NEGATIVE_INFINITY;
    let isOther = false;
    const scrolled = () => {
      const before = last.current;
      const now = (last.current = look(outer));
      const isAsBefore = !isOther && now.height === before.height && now.view === before.view;
      const isByHand = performance.now() - handled < HAND_MS;
      const isAway = distance(outer) > 1;
      if (isAway && now.top < before.top - 1 && (isAsBefore || isByHand)) sticks.current = false;
      else if (distance(outer) < NEAR_PX && now.top > before.top) sticks.current = true;
      if (sticks.current && isAway) return hold();
      setAtEnd(sticks.current || distance(outer) < NEAR_PX);
    };
    const touched = (event: Event) => {
      if (event instanceof WheelEvent && event.deltaY >= 0) return;
      if (event instanceof KeyboardEvent && !UPWARDS.has(event.key)) return;
      handled = performance.now();
    };
    const changed = new MutationObserver(() => {
      isOther = true;
      // The browser fires scroll events before animation frames.
      requestAnimationFrame(() => (isOther = false));
    });
    changed.observe(inner, { childList: true, subtree: true });
    const resized = new ResizeObserver(hold);
    resized.observe(inner);
    resized.observe(outer);
    const heard = { passive: true };
    outer.addEventListener("scroll", scrolled, heard);
    for (const hand of HANDS) outer.addEventListener(hand, touched, heard);
    return () => {
      changed.disconnect();
      resized.disconnect();
      outer.removeEventListener("scroll", scrolled);
      for (const hand of HANDS) outer.removeEventListener(hand, touched);
    };
  }, [scroller, content, hold]);

  const jump = useCallback(() => {
    sticks.current = true;
    hold();
  }, [hold]);
  const release = useCallback(() => void (sticks.current = false), []);
  return { isAtEnd, jump, release };
}

const HANDS = ["wheel", "touchmove", "keydown"];

function look({ scrollTop: top, scrollHeight: height, clientHeight: view }: HTMLElement) {
  return { top, height, view };
}

function distance({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}
