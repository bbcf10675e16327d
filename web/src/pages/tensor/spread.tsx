// How the values of the slice are spread: histogram and quantiles.

import type { JSX } from "preact";
import { num, value } from "../../text";
import type { TensorValues } from "../../types";

const WIDTH = 420;
const HEIGHT = 90;

export function Spread({ of }: { of: TensorValues }): JSX.Element {
  const histogram = of.histogram;
  const quantiles = Object.entries(of.quantiles).sort(([a], [b]) => Number(a) - Number(b));
  if (histogram === null) return <p class="muted small">No value of the slice is finite.</p>;
  const most = Math.max(1, ...histogram.counts);
  const wide = WIDTH / histogram.counts.length;
  const [low, high] = [num(histogram.low)!, num(histogram.high)!];
  return (
    <div class="spread">
      <figure>
        <figcaption class="muted small">
          Histogram of {value(of.stats.count)} values, slice {of.slice}
        </figcaption>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          role="img"
          aria-label={`Histogram from ${value(low)} to ${value(high)}`}
          preserveAspectRatio="none"
        >
          {histogram.counts.map((n, index) => (
            <rect
              key={index}
              x={index * wide + 0.5}
              width={Math.max(0.5, wide - 1)}
              y={HEIGHT - (n === 0 ? 0 : Math.max(1.5, (n / most) * HEIGHT))}
              height={n === 0 ? 0 : Math.max(1.5, (n / most) * HEIGHT)}
            >
              <title>{`${value(n)} values between ${value(low + ((high - low) * index) / histogram.counts.length, 4)} and ${value(low + ((high - low) * (index + 1)) / histogram.counts.length, 4)}`}</title>
            </rect>
          ))}
        </svg>
        <div class="ends small muted number">
          <span>{value(low, 4)}</span>
          <span>{value(high, 4)}</span>
        </div>
      </figure>
      <table class="numbers" aria-label="Quantiles">
        <tbody>
          {quantiles.map(([share, found]) => (
            <tr key={share}>
              <th>{share === "0" ? "min" : share === "1" ? "max" : share === "0.5" ? "median" : `${Number(share) * 100} %`}</th>
              <td>{value(found, 5)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
