// Small plots: the parts of each step, waits for batches, memory over a step.

import type { JSX } from "preact";
import { duration, num, shown, value } from "../../text";
import type { RankTime } from "../../types";
import { PARTS } from "./load";

const WIDTH = 640;
const HEIGHT = 150;
const MOST = 200;

export function Steps({ of }: { of: RankTime }): JSX.Element {
  const steps = of.profile.steps ?? [];
  const chosen = steps.slice(-MOST);
  // the first step may hold the whole start of the program: what counts sets the scale
  const clocked = chosen.filter((one) => one.window === "clock");
  const most = Math.max(1e-9, ...(clocked.length > 0 ? clocked : chosen).map((one) => 1.1 * num(one.seconds)!));
  const width = WIDTH / Math.max(1, chosen.length);
  return (
    <section aria-label="Steps">
      <h2>Steps <span class="muted">the height is {duration(most)}</span></h2>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="img" aria-label={`parts of ${chosen.length} steps`}>
        {chosen.map((one, index) => {
          let top = HEIGHT;
          return (
            <g key={one.step}>
              <title>{`step ${one.step} (${one.window}): ${duration(num(one.seconds)!)}; ${PARTS.map((part) => `${part} ${duration(num(one[part]) ?? 0)}`).join(", ")}`}</title>
              {PARTS.map((part) => {
                const height = ((num(one[part]) ?? 0) / most) * (HEIGHT - 4);
                top -= height;
                return <rect key={part} class={`part-${part}`} x={index * width} y={top} width={Math.max(0.5, width - 0.5)} height={Math.max(0, height)} opacity={one.window === "clock" ? 1 : 0.45} />;
              })}
            </g>
          );
        })}
      </svg>
      <p class="muted small">Pale steps are warm-up, traced or located; only the others count.</p>
    </section>
  );
}

export function Waits({ of }: { of: RankTime }): JSX.Element {
  const loaders = (of.profile.loaders ?? []).filter((one) => (one.waits ?? []).length > 0);
  const loader = loaders.reduce<(typeof loaders)[number] | null>((a, b) => (a && num(a.seconds)! >= num(b.seconds)! ? a : b), null);
  if (loader === null)
    return (
      <section aria-label="Waits for data">
        <h2>Waits for data</h2>
        <p class="muted">No data loader was met in the clocked steps.</p>
      </section>
    );
  const waits = loader.waits!.map((one) => num(one)!);
  const sorted = [...waits].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)]!;
  const most = Math.max(1e-9, sorted[sorted.length - 1]!);
  const shownWaits = waits.slice(-400);
  const width = WIDTH / shownWaits.length;
  const line = (seconds: number): number => HEIGHT - (seconds / most) * (HEIGHT - 4);
  return (
    <section aria-label="Waits for data">
      <h2>
        Waits for data <span class="muted">median {duration(at(0.5))}, 99th percentile {duration(at(0.99))}</span>
      </h2>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="img" aria-label={`waits for ${waits.length} batches, the longest ${duration(most)}`}>
        {shownWaits.map((wait, index) => (
          <rect key={index} class="part-data" x={index * width} y={line(wait)} width={Math.max(0.5, width - 0.5)} height={HEIGHT - line(wait)}>
            <title>{duration(wait)}</title>
          </rect>
        ))}
        <line x1="0" x2={WIDTH} y1={line(at(0.5))} y2={line(at(0.5))} class="axis" />
      </svg>
      <p class="muted small">
        {shown(loader.name)} of {shown(loader.dataset ?? "")}: batch size {loader.batch_size ?? 0}, {loader.workers ?? 0} workers; queue empty {value(Math.round((100 * waits.filter((one) => one > 0.001).length) / waits.length))} % of the time
      </p>
    </section>
  );
}

export function Memory({ of }: { of: RankTime }): JSX.Element | null {
  const memory = of.profile.memory;
  const bytes = memory?.bytes ?? [];
  if (!memory || bytes.length < 2) return null;
  const seconds = (memory.seconds ?? []).map((one) => num(one)!);
  const low = Math.min(0, ...bytes);
  const high = Math.max(1, ...bytes);
  const last = seconds[seconds.length - 1] || 1;
  const points = bytes.map((size, index) => `${(seconds[index]! / last) * WIDTH},${HEIGHT - ((size - low) / (high - low)) * (HEIGHT - 4)}`);
  return (
    <section aria-label="Memory">
      <h2>Memory of tensors over a step <span class="muted">peak {megabytes(memory.peak ?? 0)} above its start</span></h2>
      <div class="two">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="img" aria-label={`memory over a step, peak ${megabytes(memory.peak ?? 0)}`}>
          <polyline points={points.join(" ")} fill="none" stroke="var(--accent)" stroke-width="1.5" />
        </svg>
        <table class="rows">
          <thead>
            <tr><th>held at the peak by</th><th class="right">bytes</th><th class="right">tensors</th></tr>
          </thead>
          <tbody>
            {(memory.owners ?? []).map((one) => (
              <tr key={one.what}>
                <td class="name">{shown(one.what)}</td>
                <td class="right number">{megabytes(one.bytes)}</td>
                <td class="right number">{one.tensors ?? 1}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const megabytes = (size: number): string => (size >= 1e6 ? `${value(size / 1e6, 3)} MB` : `${value(size / 1e3, 3)} kB`);
