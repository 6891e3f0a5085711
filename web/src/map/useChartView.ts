import { type KeyboardEvent, type PointerEvent, type RefObject, useCallback, useEffect, useRef, useState } from "react";

import { type Size, type View, WHOLE, zoomAbout } from "./geometry";

/** The size of an element, as it changes. */
export function useSize(ref: RefObject<HTMLElement | null>): Size | null {
  const [size, setSize] = useState<Size | null>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => {
      if (!entry) return;
      const { width, height } = entry.contentRect;
      if (width > 0 && height > 0) setSize({ width: Math.round(width), height: Math.round(height) });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return size;
}

export interface ChartView {
  view: View;
  /** True while the chart is shown as fitted. */
  fitted: boolean;
  fit: () => void;
  zoom: (factor: number) => void;
  dragging: boolean;
  handlers: {
    onPointerDown: (event: PointerEvent) => void;
    onPointerMove: (event: PointerEvent) => void;
    onPointerUp: (event: PointerEvent) => void;
    onKeyDown: (event: KeyboardEvent) => void;
  };
}

const KEY_ZOOM = 1.4;
const KEY_PAN_PX = 60;
/** A press that moves less than this is a click. */
const DRAG_PX = 4;

/** Zoom by wheel, buttons and keys; shift by dragging and by Shift with the arrow keys. */
export function useChartView(ref: RefObject<HTMLElement | null>, size: Size | null): ChartView {
  const [view, setView] = useState<View>(WHOLE);
  const [dragging, setDragging] = useState(false);
  const press = useRef<{ x: number; y: number; from: View; id: number } | null>(null);

  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      const box = element.getBoundingClientRect();
      const factor = Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 220);
      setView((now) => zoomAbout(now, factor, [event.clientX - box.left, event.clientY - box.top]));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [ref]);

  const zoom = useCallback(
    (factor: number) => setView((now) => zoomAbout(now, factor, [(size?.width ?? 0) / 2, (size?.height ?? 0) / 2])),
    [size],
  );
  const fit = useCallback(() => setView(WHOLE), []);
  const pan = (dx: number, dy: number): void => setView((now) => ({ ...now, x: now.x + dx, y: now.y + dy }));

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pans: Record<string, [number, number]> = {
      ArrowLeft: [KEY_PAN_PX, 0],
      ArrowRight: [-KEY_PAN_PX, 0],
      ArrowUp: [0, KEY_PAN_PX],
      ArrowDown: [0, -KEY_PAN_PX],
    };
    const shift = event.shiftKey ? pans[event.key] : undefined;
    if (shift) pan(...shift);
    else if (event.key === "+" || event.key === "=") zoom(KEY_ZOOM);
    else if (event.key === "-") zoom(1 / KEY_ZOOM);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  };

  return {
    view,
    fitted: view.k === 1 && view.x === 0 && view.y === 0,
    fit,
    zoom,
    dragging,
    handlers: {
      onKeyDown,
      onPointerDown: (event) => {
        if (event.button === 0) press.current = { x: event.clientX, y: event.clientY, from: view, id: event.pointerId };
      },
      onPointerMove: (event) => {
        const start = press.current;
        if (start?.id !== event.pointerId) return;
        const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
        if (!dragging && Math.hypot(dx, dy) < DRAG_PX) return;
        if (!dragging) {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDragging(true);
        }
        setView({ ...start.from, x: start.from.x + dx, y: start.from.y + dy });
      },
      onPointerUp: () => {
        press.current = null;
        setDragging(false);
      },
    },
  };
}
