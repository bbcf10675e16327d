// Two runs side by side: what differs before any step, the first divergence, and every tensor in order of execution.

import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, Refused } from "../../net";
import { Empty } from "../../parts/small";
import { ThemeSwitch } from "../../parts/theme";
import { shown, value } from "../../text";
import type { Compared, Difference, Divergence, RunRow } from "../../types";
import "./compare.css";
import { Losses } from "./losses";
import { Sides, type Row } from "./sides";

const runs = signal<readonly RunRow[]>([]);
const answer = signal<Compared | null>(null);
const refusal = signal<string>("");
const busy = signal(false);
const a = signal(new URLSearchParams(location.search).get("a") ?? "");
const b = signal(new URLSearchParams(location.search).get("b") ?? "");

const rows = computed<Row[]>(() => (answer.value?.found.rows ?? []) as unknown as Row[]);

const VERDICTS: Record<string, string> = {
  identical: "identical",
  rounding: "the same up to rounding",
  different: "different",
  not_comparable: "not comparable",
};

async function ask(): Promise<void> {
  if (!a.value || !b.value) return;
  const query = new URLSearchParams({ a: a.value, b: b.value });
  history.replaceState(null, "", `/compare?${query}`);
  busy.value = true;
  try {
    answer.value = await get<Compared>(`/api/compare?${query}`);
    refusal.value = "";
  } catch (error) {
    answer.value = null;
    refusal.value = error instanceof Refused ? error.message : String(error);
  }
  busy.value = false;
}

export function ComparePage(): JSX.Element {
  useEffect(() => {
    document.title = "Compare · Tensight";
    void get<RunRow[]>("/api/runs").then((found) => (runs.value = found));
    void ask();
  }, []);
  const query = new URLSearchParams({ a: a.value, b: b.value });
  return (
    <div class="list-page compare-page">
      <header class="top">
        <a class="brand" href="/">
          Tensight
        </a>
        <Choice label="A" of={a} />
        <span class="muted">against</span>
        <Choice label="B" of={b} />
        {answer.value && <Verdict of={answer.value.found.verdict} />}
        <span class="grow" />
        {answer.value && <a href={`/api/compare.html?${query}`}>Save as one file</a>}
        <ThemeSwitch />
      </header>
      <main class="compare-main">
        {busy.value && <p class="muted">Comparing…</p>}
        {refusal.value && (
          <Empty title="These runs cannot be compared">
            <p>{shown(refusal.value)}</p>
          </Empty>
        )}
        {!answer.value && !refusal.value && !busy.value && (
          <Empty title="Choose two runs">
            <p>A is the reference: the run whose numbers are right.</p>
          </Empty>
        )}
        {answer.value && <Found of={answer.value} />}
      </main>
    </div>
  );
}

function Choice(props: { label: string; of: typeof a }): JSX.Element {
  const known = runs.value.some((run) => run.id === props.of.value);
  return (
    <select
      aria-label={`Run ${props.label}`}
      value={props.of.value}
      onChange={(event) => {
        props.of.value = event.currentTarget.value;
        void ask();
      }}
    >
      <option value="">run {props.label}…</option>
      {!known && props.of.value && <option value={props.of.value}>{shown(props.of.value)}</option>}
      {runs.value.map((run) => (
        <option key={run.id} value={run.id}>
          {shown(run.id)}
        </option>
      ))}
    </select>
  );
}

function Verdict(props: { of: string }): JSX.Element {
  const state = props.of === "different" ? "failed" : props.of === "not_comparable" ? "broken" : "finished";
  return <span class={`pill ${state}`}>{VERDICTS[props.of] ?? props.of}</span>;
}

function Found(props: { of: Compared }): JSX.Element {
  const found = props.of.found;
  return (
    <>
      {found.reason && <p class="muted">{shown(found.reason, 600)}</p>}
      {found.faults.map((fault, at) => (
        <Fault key={at} of={fault} first={at === 0} />
      ))}
      {found.resumed.length > 0 && (
        <section>
          <h2>What the resumed training got back</h2>
          <ul class="resumed">
            {found.resumed.map((one) => (
              <li key={one.what} class={one.restored === false ? "bad" : ""}>
                {shown(one.what)}: {one.restored === null ? "cannot be told" : one.restored ? "restored" : "not restored"}
                {one.why && ` (${shown(one.why)})`}
              </li>
            ))}
          </ul>
        </section>
      )}
      <Preflight of={found.preflight} />
      <Losses of={found.losses} />
      <Sides rows={rows.value} first={found.first_divergence} a={props.of.a} b={props.of.b} />
    </>
  );
}

function Fault(props: { of: Divergence; first: boolean }): JSX.Element {
  const one = props.of;
  return (
    <article class="fault">
      <h3>
        {props.first ? "First divergence" : "Also"}: step {one.step}, {one.phase}
        {one.rank !== null && `, rank ${one.rank}`}
      </h3>
      <p>
        <code>{shown(one.module || "the model itself")}</code>
        {one.module_b !== one.module && (
          <>
            {" "}
            (<code>{shown(one.module_b)}</code> in B)
          </>
        )}{" "}
        {shown(one.tensor)} {one.op && <code>{shown(one.op)}</code>}{" "}
        {one.file && (
          <code>
            {shown(one.file)}:{one.line}
          </code>
        )}
      </p>
      <p>
        error {value(one.error, 3)}, where rounding explains {value(one.floor, 3)}
      </p>
      {one.likely_cause && <p class="cause">{shown(one.likely_cause, 600)}</p>}
    </article>
  );
}

function Preflight(props: { of: readonly Difference[] }): JSX.Element {
  if (props.of.length === 0) return <p class="muted">Nothing differs before the first step.</p>;
  return (
    <section>
      <h2>Before any step</h2>
      <table class="rows">
        <thead>
          <tr>
            <th>What differs</th>
            <th>A</th>
            <th>B</th>
          </tr>
        </thead>
        <tbody>
          {props.of.map((one, at) => (
            <tr key={at}>
              <td>{shown(one.what)}</td>
              <td>{plain(one.a)}</td>
              <td>{plain(one.b)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function plain(x: unknown): string {
  if (Array.isArray(x)) return x.map(plain).join(", ") || "none";
  if (typeof x === "number" || typeof x === "boolean" || x === null) return value(x);
  return shown(String(x));
}

