// How a statistic of the tensor has moved over the steps.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Chart } from "../../parts/chart";
import { at, get } from "../../net";
import { go, route } from "../../route";
import { attempt, calm, lastStep, rank, rows, sequence, step } from "../../state";
import { num } from "../../text";
import type { Series, TensorPage } from "../../types";

const STATISTICS = ["abs_mean", "max", "min", "mean", "std", "l2", "zero", "negative", "positive", "nan", "inf", "change"];
const statistic = signal("abs_mean");
const log = signal(false);
const series = signal<Series | null>(null);

export function History({ of }: { of: TensorPage }): JSX.Element {
  useSignalEffect(() => {
    const run = route.value.run;
    const tensor = route.value.tensor;
    const asked = { tensor, statistic: statistic.value, rank: rank.value };
    void sequence.value;
    if (!calm.value || run === null || tensor === null) return;
    let wanted = true;
    void attempt(() => get<Series>(at(run, "series", asked))).then((got) => {
      if (wanted && got) series.value = got;
    });
    return () => {
      wanted = false;
    };
  });
  const got = series.value?.tensor === of.info.id ? series.value : null;
  const first = rows.value?.step[0] ?? 0;
  return (
    <section class="tensor-part" aria-label="History">
      <Chart
        title={`${statistic.value.replace("_", " ")} over the steps`}
        steps={got?.step ?? []}
        values={(got?.value ?? []).map(num)}
        from={first}
        to={Math.max(first + 1, lastStep.value)}
        selected={step.value}
        log={log.value}
        onSelect={(one) => go({ step: one })}
      >
        <select
          aria-label="Statistic of the history"
          value={statistic.value}
          onChange={(event) => (statistic.value = event.currentTarget.value)}
        >
          {STATISTICS.map((one) => (
            <option key={one} value={one}>
              {one.replace("_", " ")}
            </option>
          ))}
        </select>
        <label class="check small">
          <input type="checkbox" checked={log.value} onChange={(event) => (log.value = event.currentTarget.checked)} /> log
        </label>
      </Chart>
    </section>
  );
}
