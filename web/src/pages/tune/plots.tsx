// Plots of a search: the result of each trial in order, and against each parameter.

import type { JSX } from "preact";
import { num, shown, value } from "../../text";
import type { Search, TrialRow } from "../../types";

const WIDTH = 520;
const HEIGHT = 196;
const FOOT = 26; // at the bottom, for the values
const MOST_WORDS = 6;
const EDGE = 10;
const GUTTER = 62; // at the left, for the numbers

interface Tick {
  x: number;
  text: string;
}

interface Point {
  x: number;
  y: number;
  trial: TrialRow;
}

export function History({ of }: { of: Search }): JSX.Element {
  const points = results(of).map((trial) => ({ x: trial.number, y: num(trial.value)!, trial }));
  let best = of.goal === "minimize" ? Infinity : -Infinity;
  const line = points.map((point) => {
    best = of.goal === "minimize" ? Math.min(best, point.y) : Math.max(best, point.y);
    return { ...point, y: best };
  });
  return (
    <section aria-label="History">
      <h2>{shown(of.target)} of each trial</h2>
      <Plot points={points} line={line} best={of.best ?? null} label={`${of.target} of ${points.length} trials`} ticks={ends(points, (x) => `trial ${x}`)} />
    </section>
  );
}

export function Scatter({ of, name }: { of: Search; name: string }): JSX.Element {
  const words = new Map<string, number>();
  const points: Point[] = [];
  for (const trial of results(of)) {
    const given = trial.values?.[name];
    if (given === undefined) continue;
    let x = typeof given === "number" ? given : null;
    if (x === null) {
      const word = String(given);
      if (!words.has(word)) words.set(word, words.size);
      x = words.get(word)!;
    }
    points.push({ x, y: num(trial.value)!, trial });
  }
  const xs = points.map((point) => point.x);
  const log = words.size === 0 && xs.length > 0 && Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) > 50;
  const placed = log ? points.map((point) => ({ ...point, x: Math.log10(point.x) })) : points;
  const chosen = [...words].slice(0, MOST_WORDS).map(([word, x]) => ({ x, text: shown(word, 20) }));
  const ticks = words.size > 0 ? chosen : ends(placed, (x) => value(log ? 10 ** x : x, 4));
  return (
    <section aria-label={`Parameter ${name}`}>
      <h2>
        {shown(name)} <span class="muted">{log ? "log scale" : ""}</span>
      </h2>
      <Plot points={placed} line={[]} best={of.best ?? null} label={`${of.target} against ${name}`} ticks={ticks} />
    </section>
  );
}

const results = (of: Search): TrialRow[] => (of.trials ?? []).filter((one) => one.state === "complete" && Number.isFinite(num(one.value) ?? NaN));

/** The smallest and the largest value. */
function ends(points: Point[], text: (x: number) => string): Tick[] {
  const xs = points.map((point) => point.x);
  return [...new Set(xs.length > 0 ? [Math.min(...xs), Math.max(...xs)] : [])].map((x) => ({ x, text: text(x) }));
}

function Plot(props: { points: Point[]; line: Point[]; best: number | null; label: string; ticks: Tick[] }): JSX.Element {
  if (props.points.length === 0) return <p class="muted">No completed trial yet.</p>;
  const xs = props.points.map((point) => point.x);
  const ys = props.points.map((point) => point.y);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const toX = (x: number): number => GUTTER + ((x - left) / (right - left || 1)) * (WIDTH - GUTTER - EDGE);
  const toY = (y: number): number => HEIGHT - FOOT - ((y - low) / (high - low || 1)) * (HEIGHT - FOOT - EDGE);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={shown(props.label)}>
      {props.line.length > 1 && <polyline fill="none" stroke="var(--good)" points={props.line.map((point) => `${toX(point.x)},${toY(point.y)}`).join(" ")} />}
      {props.points.map((point) => (
        <circle key={point.trial.number} cx={toX(point.x)} cy={toY(point.y)} r={point.trial.number === props.best ? 5 : 3.5} class={point.trial.number === props.best ? "best" : ""}>
          <title>{`trial ${point.trial.number}: ${value(point.y)}`}</title>
        </circle>
      ))}
      <text x={GUTTER - 12} y={EDGE + 4} text-anchor="end">{value(high, 4)}</text>
      {high > low && (
        <text x={GUTTER - 12} y={HEIGHT - FOOT + 4} text-anchor="end">{value(low, 4)}</text>
      )}
      {props.ticks.map((tick) => (
        <text key={tick.x} x={toX(tick.x)} y={HEIGHT - 6} text-anchor={tick.x === left ? "start" : tick.x === right ? "end" : "middle"}>
          {tick.text}
        </text>
      ))}
    </svg>
  );
}
