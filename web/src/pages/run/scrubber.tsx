// The step that everything shows: a strip with the loss, marks for hits and findings, and a slider over it.

import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { indexOf, nearest } from "../../parts/chart";
import { Icon } from "../../parts/icons";
import { go, route } from "../../route";
import { lastStep, rows, step, summary } from "../../state";
import { num, value } from "../../text";

const WIDTH = 1000;
const HEIGHT = 30;

const strip = computed(() => {
  const all = rows.value;
  if (!all || all.step.length === 0) return null;
  const first = all.step[0]!;
  const last = Math.max(first + 1, all.step[all.step.length - 1]!);
  const x = (one: number): number => ((one - first) / (last - first)) * WIDTH;
  let low = Infinity;
  let high = -Infinity;
  const losses = all.loss.map(num);
  for (const loss of losses)
    if (loss !== null && Number.isFinite(loss)) {
      low = Math.min(low, loss);
      high = Math.max(high, loss);
    }
  const stride = Math.max(1, Math.floor(losses.length / WIDTH));
  let path = "";
  let open = false;
  for (let i = 0; i < losses.length; i += stride) {
    const loss = losses[i]!;
    if (loss === null || !Number.isFinite(loss) || low > high) {
      open = false;
      continue;
    }
    const y = high > low ? 3 + (1 - (loss - low) / (high - low)) * (HEIGHT - 6) : HEIGHT / 2;
    path += `${open ? "L" : "M"}${x(all.step[i]!).toFixed(1)} ${y.toFixed(1)}`;
    open = true;
  }
  const marks = new Set<number>();
  all.hits.forEach((n, i) => n > 0 && marks.add(Math.round(x(all.step[i]!))));
  return { first, last, x, path, marks: [...marks] };
});

function to(target: number): void {
  go({ step: target >= lastStep.peek() ? null : target }, true);
}

function move(by: number): void {
  const all = rows.peek();
  if (!all) return;
  const here = indexOf(all.step, nearest(all.step, step.peek()));
  to(all.step[Math.min(all.step.length - 1, Math.max(0, here + by))]!);
}

export function Scrubber(): JSX.Element {
  const now = strip.value;
  const all = rows.value;
  const at = all ? indexOf(all.step, step.value) : -1;
  const findings = (summary.value?.findings ?? [])
    .filter((one) => !one.finding.muted)
    .map((one) => one.finding.since_step);
  return (
    <footer class="scrubber" aria-label="Step">
      <button class="quiet" aria-label="Previous step" disabled={now === null} onClick={() => move(-1)}>
        <Icon name="left" />
      </button>
      <label class="step-box">
        step
        <input
          type="number"
          min="0"
          aria-label="Step shown"
          value={step.value < 0 ? "" : step.value}
          disabled={now === null}
          onChange={(event) => {
            const wanted = Number(event.currentTarget.value);
            if (all && Number.isFinite(wanted)) to(nearest(all.step, wanted));
          }}
        />
      </label>
      <button class="quiet" aria-label="Next step" disabled={now === null} onClick={() => move(1)}>
        <Icon name="right" />
      </button>
      <div class="strip">
        {now && (
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            {now.marks.map((x) => (
              <rect key={x} class="hit-mark" x={x - 0.75} width="1.5" y={HEIGHT - 7} height="7" />
            ))}
            <path class="line" d={now.path} />
            {findings.map((one) => (
              <rect key={`f${one}`} class="finding-mark" x={now.x(one) - 1.25} width="2.5" y="0" height={HEIGHT} />
            ))}
          </svg>
        )}
        <input
          type="range"
          aria-label="Step"
          aria-valuetext={`step ${step.value}`}
          min={now?.first ?? 0}
          max={now?.last ?? 1}
          value={step.value}
          disabled={now === null}
          onInput={(event) => all && to(nearest(all.step, Number(event.currentTarget.value)))}
        />
      </div>
      <span class="scrub-now number">
        {at >= 0 && all ? (
          <>
            loss <b class={Number.isFinite(num(all.loss[at]) ?? 0) ? "" : "bad"}>{value(all.loss[at])}</b>
          </>
        ) : (
          <span class="muted">–</span>
        )}
      </span>
      <button
        class={route.value.step === null ? "follow on" : "follow"}
        aria-pressed={route.value.step === null}
        title="Show the newest step, always"
        onClick={() => go({ step: null }, true)}
      >
        Latest
      </button>
    </footer>
  );
}
