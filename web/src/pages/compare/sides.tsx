// Every tensor of both runs, in order of execution. One selection: what is picked on one side is picked on the other.

import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { nodeName, shape, shown, value } from "../../text";
import type { Divergence, Int, Num } from "../../types";

interface Brief {
  mean: Num | null;
  min: Num | Int | null;
  max: Num | Int | null;
  l2: Num | null;
  bad: number;
}

export interface Row {
  step: number;
  phase: string;
  module: string;
  module_b: string;
  tensor: string;
  error: Num;
  floor: Num;
  verdict: string;
  shape?: number[];
  shape_b?: number[];
  a?: Brief;
  b?: Brief;
  cosine?: Num;
  max_abs?: Num;
  max_rel?: Num;
  max_ulp?: Num;
  "within_1e-3"?: Num;
  "within_5e-3"?: Num;
}

const picked = signal(-1);
const step = signal<number | null>(null);
const onlyWrong = signal(false);
const source = signal<readonly Row[]>([]);

const steps = computed(() => [...new Set(source.value.map((row) => row.step))]);
const listed = computed(() =>
  source.value
    .map((row, at) => ({ row, at }))
    .filter(
      ({ row }) =>
        (step.value === null || row.step === step.value) &&
        (!onlyWrong.value || (row.verdict !== "identical" && row.verdict !== "rounding")),
    ),
);

function isFirst(row: Row, first: Divergence | null): boolean {
  return (
    first !== null &&
    row.step === first.step &&
    row.module === first.module &&
    row.tensor === first.tensor &&
    row.verdict === "different"
  );
}

export function Sides(props: {
  rows: readonly Row[];
  first: Divergence | null;
  a: string;
  b: string;
}): JSX.Element | null {
  useEffect(() => {
    source.value = props.rows;
    step.value = props.first?.step ?? props.rows[0]?.step ?? null;
    picked.value = props.rows.findIndex((row) => isFirst(row, props.first));
  }, [props.rows]);
  if (props.rows.length === 0) return null;
  const chosen = picked.value >= 0 ? source.value[picked.value] : undefined;
  return (
    <section class="sides" aria-label="Side by side">
      <header class="sides-head">
        <h2>Side by side</h2>
        <select
          aria-label="Step"
          value={step.value ?? ""}
          onChange={(event) => (step.value = Number(event.currentTarget.value))}
        >
          {steps.value.map((one) => (
            <option key={one} value={one}>
              step {one}
            </option>
          ))}
        </select>
        <label class="check">
          <input
            type="checkbox"
            checked={onlyWrong.value}
            onChange={(event) => (onlyWrong.value = event.currentTarget.checked)}
          />{" "}
          only what leaves the noise
        </label>
        <button onClick={() => (picked.value = source.value.findIndex((row) => isFirst(row, props.first)))}>
          First divergence
        </button>
      </header>
      <div class="sides-lists">
        <List side="a" title={`A: ${props.a}`} first={props.first} />
        <List side="b" title={`B: ${props.b}`} first={props.first} />
      </div>
      {chosen && <Chosen of={chosen} />}
    </section>
  );
}

function List(props: { side: "a" | "b"; title: string; first: Divergence | null }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const at = picked.value;
  useEffect(() => {
    const pane = box.current;
    const row = pane?.querySelector<HTMLElement>('[aria-selected="true"]');
    // Only this list moves: scrollIntoView would move the page with it.
    if (pane && row) pane.scrollTop = row.offsetTop - pane.clientHeight / 2 + row.offsetHeight / 2;
  }, [at, listed.value]);
  const move = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const place = listed.value.findIndex((one) => one.at === picked.value);
    const next = listed.value[Math.min(Math.max(place + by, 0), listed.value.length - 1)];
    if (next) picked.value = next.at;
  };
  return (
    <div class="side-list">
      <h3 class="ellipsis">{shown(props.title)}</h3>
      <div class="side-rows" role="listbox" aria-label={props.title} tabIndex={0} ref={box} onKeyDown={move}>
        {listed.value.map(({ row, at: place }) => {
          const brief = props.side === "a" ? row.a : row.b;
          return (
            <div
              key={place}
              role="option"
              aria-selected={place === at}
              class={`side-row ${row.verdict}${isFirst(row, props.first) ? " first" : ""}`}
              onClick={() => (picked.value = place)}
            >
              <span class="muted phase">{row.phase}</span>
              <span class="ellipsis name">
                {nodeName(props.side === "a" ? row.module : row.module_b)} <small>{shown(row.tensor)}</small>
              </span>
              <span class="number">{shape(props.side === "a" ? row.shape : row.shape_b)}</span>
              <span class="number">{value(brief?.l2, 7)}</span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

const COLUMNS: [keyof Row, string][] = [
  ["cosine", "cosine"],
  ["max_abs", "largest difference"],
  ["max_rel", "largest relative"],
  ["within_1e-3", "within 1/1000"],
  ["within_5e-3", "within 5/1000"],
  ["max_ulp", "last places"],
];

function Chosen(props: { of: Row }): JSX.Element {
  const row = props.of;
  return (
    <div class="chosen" aria-live="polite">
      <p>
        <b>{nodeName(row.module)}</b> {shown(row.tensor)}: error {value(row.error, 4)}, rounding explains{" "}
        {value(row.floor, 4)}: <span class={`verdict ${row.verdict}`}>{row.verdict}</span>
      </p>
      <table class="rows">
        <thead>
          <tr>
            <th />
            <th class="right">mean</th>
            <th class="right">min</th>
            <th class="right">max</th>
            <th class="right">l2</th>
            <th class="right">NaN or Inf</th>
          </tr>
        </thead>
        <tbody>
          {(["a", "b"] as const).map((side) => (
            <tr key={side}>
              <td>{side.toUpperCase()}</td>
              <td class="right number">{value(row[side]?.mean, 8)}</td>
              <td class="right number">{value(row[side]?.min, 8)}</td>
              <td class="right number">{value(row[side]?.max, 8)}</td>
              <td class="right number">{value(row[side]?.l2, 8)}</td>
              <td class="right number">{value(row[side]?.bad ?? null)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">
        {COLUMNS.filter(([name]) => row[name] !== undefined)
          .map(([name, word]) => `${word} ${value(row[name] as Num, 6)}`)
          .join(" · ") || "Values were not kept: these are statistics. `--steps 0` keeps them."}
      </p>
    </div>
  );
}
