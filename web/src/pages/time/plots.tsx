// Small plots: the parts of each step, waits for batches, processors, memory over a step.

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
        {shown(loader.name)} of {shown(loader.dataset ?? "")}: batch size {loader.batch_size ?? 0}, {loader.workers ?? 0} workers{of.worker_use !== null && ` that compute ${value(Math.round(100 * num(of.worker_use)!))} % of the time`}; queue empty {value(Math.round((100 * waits.filter((one) => one > 0.001).length) / waits.length))} % of the time
      </p>
    </section>
  );
}

/** How many processors the process keeps busy in each step, and how long its thread waits for one. */
export function Processor({ of }: { of: RankTime }): JSX.Element {
  const steps = (of.profile.steps ?? []).filter((one) => one.window === "clock").slice(-MOST);
  const used = steps.map((one) => (num(one.process_cpu) ?? 0) / ((num(one.seconds) ?? 0) + (num(one.own) ?? 0) || 1));
  const cores = Number(of.profile.facts?.cores ?? 0);
  const most = Math.max(cores, 1, ...used);
  const width = WIDTH / Math.max(1, steps.length);
  const line = (processors: number): number => HEIGHT - (processors / most) * (HEIGHT - 4);
  const waits = num(of.delayed)!;
  return (
    <section aria-label="Processor">
      <h2>
        Processors busy <span class="muted">{value(num(of.processors)!, 3)}{cores > 0 && ` of ${cores}`} in a step</span>
      </h2>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT / 2}`} width="100%" preserveAspectRatio="none" height={HEIGHT / 2} role="img" aria-label={`processors busy in ${steps.length} steps`}>
        <g transform="scale(1 0.5)">
          {steps.map((one, index) => (
            <rect key={one.step} class="processor" x={index * width} y={line(used[index]!)} width={Math.max(0.5, width - 0.5)} height={HEIGHT - line(used[index]!)}>
              <title>{`step ${one.step}: ${value(used[index]!, 3)} processors`}</title>
            </rect>
          ))}
          {cores > 0 && <line x1="0" x2={WIDTH} y1={line(cores)} y2={line(cores)} class="axis" />}
        </g>
      </svg>
      <p class="muted small">
        {waits >= 0.01 ? `The training's thread could compute and had no processor ${Math.round(100 * waits)} % of a step: other programs, or too many threads, have it.` : "All threads of this process; loader workers are processes of their own."}
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
