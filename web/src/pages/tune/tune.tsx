// A hyper-parameter search: history, importance, each parameter against the result, trials, the best command line.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, Refused } from "../../net";
import { Command, Empty } from "../../parts/small";
import { ThemeSwitch } from "../../parts/theme";
import { count, duration, num, shown, value } from "../../text";
import type { SearchView, TrialRow } from "../../types";
import { History, Scatter } from "./plots";
import "./tune.css";

const view = signal<SearchView | null>(null);
const refusal = signal("");

const nameOf = (path: string): string => {
  try {
    return decodeURIComponent(path.split("/")[2] ?? "");
  } catch {
    return "";
  }
};

async function load(): Promise<void> {
  try {
    view.value = await get<SearchView>(`/api/searches/${encodeURIComponent(nameOf(location.pathname))}`);
    refusal.value = "";
  } catch (error) {
    refusal.value = error instanceof Refused ? error.message : String(error);
  }
}

export function TunePage(): JSX.Element {
  useEffect(() => {
    document.title = "Search · Tensight";
    void load();
    const timer = setInterval(() => {
      if (view.peek()?.search.state === "running") void load();
    }, 3000);
    return () => clearInterval(timer);
  }, []);
  const found = view.value;
  return (
    <div class="list-page">
      <header class="top">
        <a class="brand" href="/">
          Tensight
        </a>
        <b>{found ? shown(found.id) : ""}</b>
        {found && <span class={`pill ${found.search.state ?? "running"}`}>{found.search.state ?? "running"}</span>}
        <span class="grow" />
        <ThemeSwitch />
      </header>
      {refusal.value ? (
        <Empty title="This search cannot be shown">
          <p>{shown(refusal.value, 600)}</p>
        </Empty>
      ) : found === null ? (
        <Empty title="Loading…" />
      ) : (
        <Found of={found} />
      )}
    </div>
  );
}

function Found({ of }: { of: SearchView }): JSX.Element {
  const { search } = of;
  const trials = search.trials ?? [];
  const best = trials.find((one) => one.number === search.best);
  const tally = (state: TrialRow["state"]): number => trials.filter((one) => one.state === state).length;
  return (
    <main class="tune">
      <section aria-label="Best">
        <h2>
          {best ? `Best ${shown(search.target)} ${value(best.value)} in trial ${best.number}` : "No trial is completed yet"}
        </h2>
        {search.best_command && <Command text={search.best_command} />}
        <p class="muted small">
          {count(trials.length, "trial")} of {search.wanted}: {tally("complete")} complete, {tally("pruned")} pruned, {tally("failed")} failed, {tally("running")} running; {duration(num(search.seconds) ?? 0)} of training in all; sampler {shown(search.sampler ?? "")}, pruner {shown(search.pruner ?? "")}
        </p>
        <p class="muted small">
          The same search in Optuna's dashboard: <code>optuna-dashboard {shown(search.storage ?? "")}</code>
        </p>
      </section>
      <div class="two">
        <History of={search} />
        <Importance of={search.importance ?? {}} />
      </div>
      <div class="two">
        {search.parameters.map((name) => (
          <Scatter key={name} of={search} name={name} />
        ))}
      </div>
      <section aria-label="Trials">
        <h2>Trials</h2>
        <table class="rows">
          <thead>
            <tr>
              <th>trial</th>
              <th>state</th>
              <th class="right">{shown(search.target)}</th>
              {search.parameters.map((name) => (
                <th key={name} class="right">
                  {shown(name)}
                </th>
              ))}
              <th class="right">time</th>
              <th>why</th>
            </tr>
          </thead>
          <tbody>
            {[...trials].reverse().map((one) => {
              const run = of.runs[String(one.number)];
              return (
                <tr key={one.number}>
                  <td>{run ? <a href={`/run/${encodeURIComponent(run)}`}>trial {one.number}</a> : `trial ${one.number}`}</td>
                  <td>{one.state}</td>
                  <td class="right number">{value(one.value)}</td>
                  {search.parameters.map((name) => (
                    <td key={name} class="right number">
                      {value(one.values?.[name] as never, 5)}
                    </td>
                  ))}
                  <td class="right number">{duration(num(one.seconds) ?? 0)}</td>
                  <td class="muted wrap">{shown(one.reason ?? "", 200)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </section>
    </main>
  );
}

function Importance({ of }: { of: Record<string, number | string> }): JSX.Element {
  const rows = Object.entries(of).map(([name, share]) => [name, num(share)!] as const);
  return (
    <section aria-label="Importance">
      <h2>Which parameter matters</h2>
      {rows.length === 0 && <p class="muted">Known after four completed trials with two parameters or more.</p>}
      <div class="importance">
        {rows.map(([name, share]) => (
          <>
            <span class="name">{shown(name)}</span>
            <i style={{ width: `${100 * share}%` }} />
            <span class="number">{Math.round(100 * share)} %</span>
          </>
        ))}
      </div>
    </section>
  );
}
