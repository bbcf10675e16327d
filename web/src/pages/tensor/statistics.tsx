// The statistics of a tensor in the step that is shown, beside those of the look before.

import type { JSX } from "preact";
import { Value } from "../../parts/small";
import { value } from "../../text";
import type { Stats, TensorPage } from "../../types";
import { Shares } from "../run/inspector";

const COUNTS: [name: string, field: keyof Stats][] = [
  ["−Inf", "neg_inf"],
  ["negative", "negative"],
  ["zero", "zero"],
  ["positive", "positive"],
  ["Inf", "pos_inf"],
  ["NaN", "nan"],
];
const NUMBERS: [name: string, field: keyof Stats][] = [
  ["min", "min"],
  ["max", "max"],
  ["mean", "mean"],
  ["mean |x|", "abs_mean"],
  ["std", "std"],
  ["l2", "l2"],
];

export function StatisticsTable({ of }: { of: TensorPage }): JSX.Element {
  const now = of.seen?.stats;
  if (!now)
    return (
      <section class="tensor-part">
        <h3>Statistics</h3>
        <p class="muted">It was not looked at up to step {of.step}.</p>
      </section>
    );
  const before = of.before?.stats;
  const lines: [string, Stats, number][] = [["now", now, of.seen_step]];
  if (before) lines.push(["before", before, of.before_step]);
  return (
    <section class="tensor-part" aria-label="Statistics">
      <h3>Statistics</h3>
      <Shares stats={now} />
      <div class="wide-table">
        <table class="numbers">
          <thead>
            <tr>
              <th>step</th>
              {[...COUNTS, ...NUMBERS].map(([name]) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.map(([name, stats, at]) => (
              <tr key={name} class={name === "before" ? "muted" : ""}>
                <td title={name}>{at}</td>
                {COUNTS.map(([label, field]) => {
                  const n = (stats[field] as number | undefined) ?? 0;
                  const bad = n > 0 && (field === "nan" || field === "pos_inf" || field === "neg_inf");
                  return (
                    <td key={label} class={bad ? "bad" : ""}>
                      {value(n)}
                    </td>
                  );
                })}
                {NUMBERS.map(([label, field]) => (
                  <td key={label}>
                    <Value of={(stats[field] as number | null | undefined) ?? null} digits={5} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {of.seen_step !== of.step && (
        <p class="muted small">Step {of.step} was watched less deeply; this is of step {of.seen_step}.</p>
      )}
    </section>
  );
}
