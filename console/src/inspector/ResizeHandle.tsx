import { type KeyboardEvent, type PointerEvent, useEffect, useState } from "react";

const KEY = "threadline.inspector";
const LEAST = 320;
const USUAL = 432;
const STEP = 24;

/** The edge of the inspector: drags it wider and narrower. The width is kept on this device. */
export function ResizeHandle() {
  const [width, setWidth] = useState(saved);
  useEffect(() => {
    document.documentElement.style.setProperty("--inspector", `${width}px`);
  }, [width]);
  const set = (wanted: number) => {
    const width = Math.round(Math.min(Math.max(wanted, LEAST), most()));
    setWidth(width);
    localStorage.setItem(KEY, String(width));
  };
  const keyed = (event: KeyboardEvent) => {
    const to = { ArrowLeft: width + STEP, ArrowRight: width - STEP, Home: LEAST, End: most() }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    set(to);
  };
  const dragged = (event: PointerEvent<HTMLElement>) => {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) set(innerWidth - event.clientX);
  };
  return (
    <div
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the inspector"
      aria-valuenow={width}
      aria-valuemin={LEAST}
      aria-valuemax={most()}
      tabIndex={0}
      className="inspector-edge"
      onKeyDown={keyed}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={dragged}
      onDoubleClick={() => set(USUAL)}
    />
  );
}

function most(): number {
  return Math.max(LEAST, Math.round(innerWidth * 0.75));
}

function saved(): number {
  const width = Number(localStorage.getItem(KEY));
  return width >= LEAST ? Math.min(width, most()) : USUAL;
}
