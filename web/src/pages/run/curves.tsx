// Curves: loss, learning rate, gradient norm, scale, time, and any statistic of any tensor.

import { computed, effect, signal } from "@preact/signals";
import type { JSX } from "preact";
import { Chart } from "../../parts/chart";
import { Icon } from "../../parts/icons";
import { Empty } from "../../parts/small";
import { at, get } from "../../net";
import { go, route } from "../../route";
import { attempt, lastStep, rank, rows, sequence, step, tensorName } from "../../state";
import { num, shown } from "../../text";
import type { Series } from "../../types";

interface Pinned {
  tensor: string;
  label: string;
  statistic: string;
}

const STATISTICS = ["abs_mean", "max", "min", "mean", "std", "l2", "zero", "nan", "inf", "change"];
const pinned = signal<readonly Pinned[]>([]);
const series = signal<ReadonlyMap<string, Series>>(new Map());
const logs = signal<ReadonlySet<string>>(new Set());
const ORDER = ["gradient_norm", "lr", "scale"];

const key = (one: Pinned): string => `${one.tensor} ${one.statistic} ${rank.value}`;

export function pin(id: number, label: string, statistic = "abs_mean"): void {
  const tensor = tensorName(id);
  if (pinned.peek().some((one) => one.tensor === tensor)) return;
  pinned.value = [{ tensor, label, statistic }, ...pinned.peek()];
}

let shownRun: string | null = null;
effect(() => {
  // Another run: its tensors have other numbers.
  if (route.value.run !== shownRun) {
    shownRun = route.value.run;
    pinned.value = [];
    series.value = new Map();
  }
});

let askedAt = -1;
effect(() => {
  const run = route.value.run;
  const list = pinned.value;
  const now = sequence.value;
  const of = rank.value;
  if (run === null || route.value.tab !== "curves") return;
  const grown = now !== askedAt;
  askedAt = now;
  for (const one of list)
    if (grown || !series.peek().has(key(one)))
      void attempt(() =>
        get<Series>(at(run, "series", { tensor: one.tensor, statistic: one.statistic, rank: of })),
      ).then((got) => {
        if (got) series.value = new Map([...series.peek(), [key(one), got]]);
      });
});

interface Curve {
  name: string;
  title: string;
  steps: readonly number[];
  values: (number | null)[];
  pinned?: Pinned;
}

const curves = computed<Curve[]>(() => {
  const all = rows.value;
  if (!all) return [];
  const list: Curve[] = pinned.value.map((one) => {
    const got = series.value.get(key(one));
    return {
      name: key(one),
      title: one.label,
      steps: got?.step ?? [],
      values: (got?.value ?? []).map(num),
      pinned: one,
    };
  });
  const add = (name: string, title: string, values: readonly Parameters<typeof num>[0][]): void => {
    if (values.some((one) => one !== null)) list.push({ name, title, steps: all.step, values: values.map(num) });
  };
  add("loss", "loss", all.loss);
  const names = Object.keys(all.scalars).sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  for (const name of names) add(name, shown(name.replaceAll("_", " ")), all.scalars[name]!);
  add("seconds", "seconds per step", all.seconds);
  return list;
});

const place = (name: string): number => {
  const found = ORDER.findIndex((one) => name === one || name.startsWith(`${one}/`));
  return found < 0 ? ORDER.length : found;
};

export function Curves(): JSX.Element {
  if (curves.value.length === 0)
    return (
      <Empty title="No curves yet">
        <p>They begin with the first step that is over.</p>
      </Empty>
    );
  const first = rows.value?.step[0] ?? 0;
  return (
    <div class="curves">
      {curves.value.map((curve) => (
        <Chart
          key={curve.name}
          title={curve.title}
          steps={curve.steps}
          values={curve.values}
          from={first}
          to={Math.max(first + 1, lastStep.value)}
          selected={step.value}
          log={logs.value.has(curve.name)}
          onSelect={(at) => go({ step: at })}
        >
          {curve.pinned && <StatisticOf of={curve.pinned} />}
          <label class="check small">
            <input
              type="checkbox"
              checked={logs.value.has(curve.name)}
              onChange={(event) => {
                const next = new Set(logs.value);
                if (event.currentTarget.checked) next.add(curve.name);
                else next.delete(curve.name);
                logs.value = next;
              }}
            />{" "}
            log
          </label>
          {curve.pinned && (
            <button
              class="quiet"
              aria-label="Remove this curve"
              onClick={() => (pinned.value = pinned.value.filter((one) => one !== curve.pinned))}
            >
              <Icon name="cross" />
            </button>
          )}
        </Chart>
      ))}
    </div>
  );
}

function StatisticOf({ of }: { of: Pinned }): JSX.Element {
  return (
    <select
      aria-label="Statistic"
      value={of.statistic}
      onChange={(event) => {
        const statistic = event.currentTarget.value;
        pinned.value = pinned.value.map((one) => (one === of ? { ...one, statistic } : one));
      }}
    >
      {STATISTICS.map((one) => (
        <option key={one} value={one}>
          {one.replace("_", " ")}
        </option>
      ))}
    </select>
  );
}
