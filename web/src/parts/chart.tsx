// A curve over steps, drawn as SVG. Many points become the extremes of each pixel column, so no spike is lost;
// values that are not finite are red marks at the top.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { shown, value } from "../text";

interface ChartProps {
  title: string;
  steps: readonly number[];
  values: readonly (number | null)[];
  from: number;
  to: number;
  selected: number;
  log?: boolean;
  height?: number;
  onSelect: (step: number) => void;
  children?: ComponentChildren; // stands in the caption
}

const LEFT = 58;
const RIGHT = 10;
const TOP = 12;
const BOTTOM = 18;

export function Chart(props: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  const [hover, setHover] = useState<number | null>(null);
  const height = props.height ?? 150;
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(160, Math.floor(entry!.contentRect.width))));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const drawn = useMemo(
    () => draw(props.steps, props.values, props.from, props.to, width, height, props.log ?? false),
    [props.steps, props.values, props.from, props.to, width, height, props.log],
  );
  const toStep = (event: MouseEvent): number => {
    const left = box.current!.getBoundingClientRect().left;
    const share = (event.clientX - left - LEFT) / Math.max(1, width - LEFT - RIGHT);
    return nearest(props.steps, props.from + share * (props.to - props.from));
  };
  const cursor = hover ?? props.selected;
  const place = indexOf(props.steps, cursor);
  const now = place >= 0 ? props.values[place] : undefined;
  return (
    <figure class="curve">
      <figcaption>
        <b class="ellipsis" title={shown(props.title, 2000)}>
          {shown(props.title)}
        </b>
        <span class="grow" />
        <span class="chart-now" aria-hidden="true">
          step {cursor}{" "}
          <b class={now !== null && now !== undefined && !Number.isFinite(now) ? "bad" : ""}>{value(now)}</b>
        </span>
        {props.children}
      </figcaption>
      <div class="chart" ref={box}>
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`${props.title} over steps ${props.from} to ${props.to}; ${value(now)} at step ${cursor}`}
          onMouseMove={(event) => setHover(toStep(event))}
          onMouseLeave={() => setHover(null)}
          onClick={(event) => props.steps.length > 0 && props.onSelect(toStep(event))}
        >
          {drawn.ticks.map((tick) => (
            <g key={tick.text}>
              <line class="grid" x1={LEFT} x2={width - RIGHT} y1={tick.y} y2={tick.y} />
              <text class="axis" x={LEFT - 6} y={tick.y + 3.5} text-anchor="end">
                {tick.text}
              </text>
            </g>
          ))}
          <text class="axis" x={LEFT} y={height - 4}>
            {props.from}
          </text>
          <text class="axis" x={width - RIGHT} y={height - 4} text-anchor="end">
            {props.to}
          </text>
          <path class="line" d={drawn.path} />
          {drawn.dots.map(([x, y]) => (
            <circle class="dot" cx={x} cy={y} r="2" />
          ))}
          {drawn.bad.map(([start, end]) => (
            <rect class="bad-mark" x={start - 2} width={end - start + 4} y="2" height="5" rx="1" />
          ))}
          {props.selected >= props.from && props.selected <= props.to && (
            <line
              class="selected"
              x1={drawn.x(props.selected)}
              x2={drawn.x(props.selected)}
              y1={TOP}
              y2={height - BOTTOM}
            />
          )}
          {hover !== null && (
            <line class="hover" x1={drawn.x(hover)} x2={drawn.x(hover)} y1={TOP} y2={height - BOTTOM} />
          )}
        </svg>
      </div>
    </figure>
  );
}

interface Drawn {
  path: string;
  dots: [number, number][];
  bad: [from: number, to: number][]; // stretches of values that are not finite
  ticks: { y: number; text: string }[];
  x: (step: number) => number;
}

function draw(
  steps: readonly number[],
  values: readonly (number | null)[],
  from: number,
  to: number,
  width: number,
  height: number,
  log: boolean,
): Drawn {
  const inside = width - LEFT - RIGHT;
  const x = (step: number): number => LEFT + (to > from ? ((step - from) / (to - from)) * inside : inside / 2);
  const scale = log ? (v: number): number => Math.log10(v) : (v: number): number => v;
  const usable = (v: number): boolean => Number.isFinite(v) && (!log || v > 0);
  let low = Infinity;
  let high = -Infinity;
  for (const v of values)
    if (v !== null && usable(v)) {
      low = Math.min(low, scale(v));
      high = Math.max(high, scale(v));
    }
  if (low > high) [low, high] = [0, 1];
  if (low === high) {
    const room = log ? 0.5 : Math.abs(low) * 0.1 || 1;
    [low, high] = [low - room, high + room];
  }
  const margin = (high - low) * 0.06;
  low -= margin;
  high += margin;
  const y = (v: number): number => TOP + (1 - (scale(v) - low) / (high - low)) * (height - TOP - BOTTOM);
  let path = "";
  const bad: [number, number][] = [];
  let wasBad = false;
  const dots: [number, number][] = [];
  let column = -1;
  let least = 0;
  let most = 0;
  let open = false;
  const flush = (): void => {
    if (column < 0) return;
    path += `${open ? "L" : "M"}${column} ${y(least).toFixed(1)}`;
    if (most !== least) path += `L${column} ${y(most).toFixed(1)}`;
    open = true;
  };
  for (let i = 0; i < steps.length; i++) {
    const v = values[i];
    if (v === null || v === undefined) continue;
    const at = Math.round(x(steps[i]!) * 2) / 2;
    if (!usable(v)) {
      flush();
      column = -1;
      open = false;
      if (!Number.isFinite(v)) {
        if (wasBad) bad[bad.length - 1]![1] = at;
        else bad.push([at, at]);
        wasBad = true;
      }
      continue;
    }
    wasBad = false;
    if (at !== column) {
      flush();
      column = at;
      least = most = v;
      if (steps.length <= 60) dots.push([at, y(v)]);
    } else if (v < least) least = v;
    else if (v > most) most = v;
  }
  flush();
  const ticks = (log ? logTicks(low, high) : niceTicks(low, high)).map((v) => ({
    y: TOP + (1 - ((log ? Math.log10(v) : v) - low) / (high - low)) * (height - TOP - BOTTOM),
    text: value(Number(v.toPrecision(4))),
  }));
  return { path, dots, bad, ticks, x };
}

function niceTicks(low: number, high: number): number[] {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].find((one) => one * power >= rough)! * power;
  const ticks = [];
  for (let v = Math.ceil(low / unit) * unit; v <= high && ticks.length < 8; v += unit)
    ticks.push(Math.abs(v) < unit * 1e-9 ? 0 : v);
  return ticks;
}

function logTicks(low: number, high: number): number[] {
  const stride = Math.max(1, Math.ceil((high - low) / 4));
  const ticks = [];
  for (let p = Math.ceil(low); p <= high; p += stride) ticks.push(10 ** p);
  return ticks.length > 0 ? ticks : [10 ** ((low + high) / 2)];
}

/** The index of a step, or -1. Steps ascend. */
export function indexOf(steps: readonly number[], step: number): number {
  let low = 0;
  let high = steps.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (steps[middle]! === step) return middle;
    if (steps[middle]! < step) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** The step there is that lies nearest. */
export function nearest(steps: readonly number[], wanted: number): number {
  if (steps.length === 0) return 0;
  let low = 0;
  let high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle]! <= wanted) low = middle;
    else high = middle;
  }
  return wanted - steps[low]! <= steps[high]! - wanted ? steps[low]! : steps[high]!;
}
