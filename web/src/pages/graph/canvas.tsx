// The sheet that a drawing lies on: it is moved by dragging, zoomed by the wheel, and fits itself to what is new.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Rect } from "./state";

const zoom = signal({ x: 0, y: 0, scale: 1 });
const LEAST = 0.08;
const MOST = 3;
let fitting: () => void = () => undefined;
export const fit = (): void => fitting();

export function Canvas(props: {
  width: number;
  height: number;
  name: string; // another name is another drawing, which is fitted anew
  focus: Rect | null; // what to bring into sight
  small?: boolean; // all of it is to be seen, however small
  children: ComponentChildren;
}): JSX.Element {
  const box = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ x: number; y: number; from: { x: number; y: number } } | null>(null);
  fitting = () => {
    const here = box.current?.getBoundingClientRect();
    if (!here || here.width === 0) return;
    const scale = Math.min(1.1, Math.max(LEAST, Math.min((here.width - 24) / props.width, (here.height - 24) / props.height)));
    // what is too long to be read when it all fits begins at its top
    const readable = props.small ? scale : Math.max(scale, Math.min(0.9, (here.width - 24) / props.width));
    zoom.value = {
      scale: readable,
      x: (here.width - props.width * readable) / 2,
      y: props.height * readable > here.height ? 12 : (here.height - props.height * readable) / 2,
    };
  };
  const moved = useRef(false);
  useEffect(() => {
    moved.current = props.focus !== null;
    fitting();
  }, [props.name]);
  useEffect(() => {
    const here = box.current?.getBoundingClientRect();
    const there = props.focus;
    if (!there || !here) return;
    const now = zoom.peek();
    const [left, top] = [now.x + there.x * now.scale, now.y + there.y * now.scale];
    if (left >= 0 && top >= 0 && left <= here.width - 60 && top <= here.height - 30) return;
    moved.current = true;
    zoom.value = {
      ...now,
      x: here.width / 2 - (there.x + there.width / 2) * now.scale,
      y: here.height / 3 - there.y * now.scale,
    };
  }, [props.focus?.x, props.focus?.y, props.name]);
  useEffect(() => {
    // another window, another fit, unless the drawing was moved by hand
    const observer = new ResizeObserver(() => !moved.current && fitting());
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current!;
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      moved.current = true;
      const now = zoom.peek();
      if (!event.ctrlKey && !event.metaKey && event.shiftKey) {
        zoom.value = { ...now, x: now.x - event.deltaY };
        return;
      }
      const scale = Math.min(MOST, Math.max(LEAST, now.scale * Math.exp(-event.deltaY * 0.0015)));
      const here = element.getBoundingClientRect();
      const [px, py] = [event.clientX - here.left, event.clientY - here.top];
      zoom.value = {
        scale,
        x: px - ((px - now.x) / now.scale) * scale,
        y: py - ((py - now.y) / now.scale) * scale,
      };
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);
  const now = zoom.value;
  return (
    <svg
      ref={box}
      class={drag ? "sheet moving" : "sheet"}
      role="group"
      aria-label="Graph"
      data-ready={props.name}
      onPointerDown={(event) => {
        if (event.button !== 0 || (event.target as Element).closest(".box [role=button]")) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        moved.current = true;
        setDrag({ x: event.clientX, y: event.clientY, from: { x: now.x, y: now.y } });
      }}
      onPointerMove={(event) => {
        if (drag) zoom.value = { ...now, x: drag.from.x + event.clientX - drag.x, y: drag.from.y + event.clientY - drag.y };
      }}
      onPointerUp={() => setDrag(null)}
      onPointerCancel={() => setDrag(null)}
    >
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
          <path class="arrow-head" d="M0 0.5L7.5 4L0 7.5z" />
        </marker>
      </defs>
      <g class="scene" transform={`translate(${now.x} ${now.y}) scale(${now.scale})`}>
        {props.children}
      </g>
    </svg>
  );
}
