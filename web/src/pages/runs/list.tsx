// The list of runs, and what to do when there is none.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Command, Empty, Value } from "../../parts/small";
import { ThemeSwitch } from "../../parts/theme";
import { get, Refused } from "../../net";
import { follow } from "../../route";
import { connectedRuns, online, trouble, welcome } from "../../state";
import { count, shown, when } from "../../text";
import type { RunRow } from "../../types";
import { StatePill } from "../run/state_pill";
import { Searches } from "../tune/searches";

const runs = signal<readonly RunRow[] | null>(null);

async function refresh(): Promise<void> {
  try {
    runs.value = await get<RunRow[]>("/api/runs");
  } catch (error) {
    if (error instanceof Refused && error.code !== 0) trouble.value = error;
  }
}

export function RunList(): JSX.Element {
  useSignalEffect(() => {
    void connectedRuns.value; // ask again when a training has come or gone
    void refresh();
    const timer = setInterval(() => void refresh(), 5000);
    return () => clearInterval(timer);
  });
  const here = welcome.value;
  return (
    <div class="list-page">
      <header class="top">
        <span class="brand">Tensight</span>
        {here && (
          <span class="muted ellipsis">
            {here.mode === "serve" ? `waits for trainings at ${here.place}` : shown(here.place)}
          </span>
        )}
        <span class="grow" />
        {(runs.value?.length ?? 0) > 1 && <a href="/compare">Compare two runs</a>}
        {!online.value && <span class="pill lost">server gone</span>}
        <ThemeSwitch />
      </header>
      <main class="list-main">
        <Searches />
        {runs.value === null ? (
          <Empty title="Looking for runs…" />
        ) : runs.value.length === 0 ? (
          <NoRuns />
        ) : (
          <table class="rows runs">
            <thead>
              <tr>
                <th>Run</th>
                <th>State</th>
                <th class="right">Findings</th>
                <th class="right">Hits</th>
                <th class="right">Steps</th>
                <th class="right">Last loss</th>
                <th>Framework</th>
                <th>Started</th>
              </tr>
            </thead>
            <tbody>
              {runs.value.map((run) => (
                <tr key={run.id}>
                  <td>
                    <a {...follow({ run: run.id })}>{shown(run.id)}</a>
                    <div class="muted small ellipsis" title={shown(run.command.join(" "), 2000)}>
                      {run.error ? shown(run.error) : shown(run.command.join(" "), 160)}
                    </div>
                  </td>
                  <td>
                    <StatePill state={run.error ? "broken" : (run.state ?? run.ended)} />
                  </td>
                  <td class={run.findings > 0 ? "right bad" : "right"}>{run.findings || "–"}</td>
                  <td class="right">{run.hits || "–"}</td>
                  <td class="right number">{run.steps}</td>
                  <td class="right">
                    <Value of={run.loss} />
                  </td>
                  <td class="muted">
                    {shown(run.framework) || "–"}
                    {run.ranks > 1 && ` · ${count(run.ranks, "rank")}`}
                  </td>
                  <td class="muted number">{when(Number(run.started))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </main>
    </div>
  );
}

function NoRuns(): JSX.Element {
  const here = welcome.value;
  if (here?.mode === "serve")
    return (
      <Empty title="Waiting for a training">
        <p>Start one of these; the run appears here by itself.</p>
        <Command text={`tensight run --server ${here.place} train.py`} />
        <Command text={`TENSIGHT_SERVER=${here.place} tensight run train.py`} />
        <p class="muted">
          After <code>tensight serve --install-hook</code>, <code>TENSIGHT_SERVER={here.place} python train.py</code>{" "}
          does the same.
        </p>
      </Empty>
    );
  return (
    <Empty title="There are no runs in this folder yet">
      <p>Record one, and it appears here by itself:</p>
      <Command text="tensight run train.py" />
    </Empty>
  );
}
