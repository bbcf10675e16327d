// The losses of both runs, and the band of one thousandth around the first.

import type { JSX } from "preact";
import { num, value } from "../../text";
import type { LossPair } from "../../types";

const WIDTH = 900;
const HEIGHT = 180;
const BAND = 1e-3;

export function Losses(props: { of: readonly LossPair[] }): JSX.Element | null {
  const points = props.of
    .map((pair) => ({ step: pair.step, a: num(pair.a)!, b: num(pair.b)!, apart: num(pair.relative)! }))
    .filter((pair) => Number.isFinite(pair.a) && Number.isFinite(pair.b));
  if (points.length < 2) return null;
  const low = Math.min(...points.map((one) => Math.min(one.a, one.b)));
  const high = Math.max(...points.map((one) => Math.max(one.a, one.b)));
  const first = points[0]!.step;
  const last = points[points.length - 1]!.step;
  const x = (step: number): string => ((WIDTH * (step - first)) / (last - first || 1)).toFixed(1);
  const y = (loss: number): string => (HEIGHT - (HEIGHT * (loss - low)) / (high - low || 1)).toFixed(1);
  const line = (side: "a" | "b"): string => points.map((one) => `${x(one.step)},${y(one[side])}`).join(" ");
  const band = [
    ...points.map((one) => `${x(one.step)},${y(one.a + Math.abs(one.a) * BAND)}`),
    ...points.map((one) => `${x(one.step)},${y(one.a - Math.abs(one.a) * BAND)}`).reverse(),
  ].join(" ");
  const inside = points.filter((one) => one.apart <= BAND).length;
  return (
    <section>
      <h2>Losses</h2>
      <p class="muted">
        {Math.round((100 * inside) / points.length)} % of {points.length} steps lie within 1‰ of A's (the band); from{" "}
        {value(high, 4)} to {value(low, 4)}. A is the full line, B the broken one.
      </p>
      <svg class="loss-pair" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="losses of A and B by step">
        <polygon class="band" points={band} />
        <polyline class="a" points={line("a")} />
        <polyline class="b" points={line("b")} />
      </svg>
    </section>
  );
}
