// The timeline of the first traced steps on a canvas: wheel or buttons zoom, dragging moves, hovering names a span.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { duration, num, shown } from "../../text";
import type { RankTime } from "../../types";

const ROW = 18;
const COLOURS: Record<string, string> = { data: "#c9741b", forward: "#3b78c9", backward: "#7a5bb8", update: "#2f8f63" };

interface Bar {
  name: string;
  start: number;
  end: number;
  row: number;
  colour: string;
}

export function Timeline({ of }: { of: RankTime }): JSX.Element | null {
  const canvas = useRef<HTMLCanvasElement>(null);
  const bars = useMemo(() => arrange(of), [of]);
  const last = useMemo(() => Math.max(1e-9, ...bars.map((bar) => bar.end)), [bars]);
  const rows = Math.min(24, 1 + Math.max(0, ...bars.map((bar) => bar.row)));
  const [seen, setSeen] = useState<[number, number]>([0, last]);
  const [hover, setHover] = useState<Bar | null>(null);
  const drag = useRef<number | null>(null);
  useEffect(() => setSeen([0, last]), [last]);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const paint = (): void => draw(element, bars, rows, seen, hover);
    paint();
    const observer = new ResizeObserver(paint);
    observer.observe(element);
    return () => observer.disconnect();
  }, [bars, rows, seen, hover]);
  if (bars.length === 0) return null;
  const zoom = (factor: number, middle = (seen[0] + seen[1]) / 2): void => {
    const length = Math.min(last, Math.max(last / 1e5, (seen[1] - seen[0]) * factor));
    const share = (middle - seen[0]) / (seen[1] - seen[0]);
    const from = Math.min(Math.max(0, middle - share * length), last - length);
    setSeen([from, from + length]);
  };
  const time = (event: MouseEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    return seen[0] + ((event.clientX - box.left) / box.width) * (seen[1] - seen[0]);
  };
  const find = (event: MouseEvent): Bar | null => {
    const row = Math.floor((event.clientY - canvas.current!.getBoundingClientRect().top) / ROW);
    const at = time(event);
    return bars.find((bar) => bar.row === row && bar.start <= at && at < bar.end) ?? null;
  };
  return (
    <section aria-label="Timeline">
      <h2>Timeline of the first traced steps</h2>
      <div class="tools">
        <button onClick={() => zoom(0.5)}>Zoom in</button>
        <button onClick={() => zoom(2)}>Zoom out</button>
        <button onClick={() => setSeen([0, last])}>Whole</button>
        <span class="muted small timeline-range">
          {duration(seen[0])} to {duration(seen[1])}
        </span>
        <span class="small ellipsis">{hover ? `${shown(hover.name)}: ${duration(hover.end - hover.start)}` : ""}</span>
      </div>
      <canvas
        ref={canvas}
        style={{ height: `${rows * ROW}px` }}
        role="img"
        aria-label={`timeline of ${bars.length} spans in ${duration(last)}`}
        onWheel={(event) => {
          if (!event.ctrlKey && !event.altKey) {
            event.preventDefault();
            zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event));
          }
        }}
        onMouseDown={(event) => (drag.current = time(event))}
        onMouseUp={() => (drag.current = null)}
        onMouseLeave={() => {
          drag.current = null;
          setHover(null);
        }}
        onMouseMove={(event) => {
          if (drag.current === null) return setHover(find(event));
          const shift = drag.current - time(event);
          const from = Math.min(Math.max(0, seen[0] + shift), last - (seen[1] - seen[0]));
          setSeen([from, from + seen[1] - seen[0]]);
        }}
      />
    </section>
  );
}

/** Rows of the threads one below the other, without the gaps between their numbers. */
function arrange(of: RankTime): Bar[] {
  const spans = of.profile.spans ?? [];
  const rows = [...new Set(spans.map((span) => span.row ?? 0))].sort((a, b) => a - b);
  const place = new Map(rows.map((row, index) => [row, index]));
  return spans.map((span) => ({
    name: span.name,
    start: num(span.start)!,
    end: num(span.start)! + num(span.seconds)!,
    row: place.get(span.row ?? 0)!,
    colour: span.kind === "part" ? (COLOURS[span.name] ?? "#8b949e") : span.kind === "step" ? "#59626d" : hue(span.name),
  }));
}

function hue(name: string): string {
  let code = 0;
  for (const char of name) code = (code * 31 + char.charCodeAt(0)) % 360;
  return `hsl(${code} 45% 40%)`;
}

function draw(canvas: HTMLCanvasElement, bars: readonly Bar[], rows: number, seen: [number, number], hover: Bar | null): void {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = width * scale;
  canvas.height = rows * ROW * scale;
  const pen = canvas.getContext("2d");
  if (!pen || width === 0) return;
  pen.scale(scale, scale);
  pen.clearRect(0, 0, width, rows * ROW);
  pen.font = "11px system-ui";
  pen.textBaseline = "middle";
  const toX = (at: number): number => ((at - seen[0]) / (seen[1] - seen[0])) * width;
  for (const bar of bars) {
    if (bar.end < seen[0] || bar.start > seen[1] || bar.row >= rows) continue;
    const left = Math.max(0, toX(bar.start));
    const length = Math.max(0.7, Math.min(width, toX(bar.end)) - left);
    pen.fillStyle = bar.colour;
    pen.globalAlpha = hover === null || hover === bar ? 1 : 0.75;
    pen.fillRect(left, bar.row * ROW + 1, length, ROW - 2);
    if (length > 40) {
      pen.globalAlpha = 1;
      pen.fillStyle = "#ffffff";
      pen.save();
      pen.beginPath();
      pen.rect(left, bar.row * ROW, length - 3, ROW);
      pen.clip();
      pen.fillText(shown(bar.name, 60), left + 4, bar.row * ROW + ROW / 2);
      pen.restore();
    }
  }
  pen.globalAlpha = 1;
}
