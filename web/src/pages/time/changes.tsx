// A second profile beside this one: what has changed.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { go, route } from "../../route";
import { duration, num, shown } from "../../text";
import type { Changed } from "../../types";
import { changed, loadDifference } from "./load";

export function Changes({ run, others }: { run: string; others: readonly string[] }): JSX.Element | null {
  const other = route.value.against;
  useEffect(() => void loadDifference(run, other), [run, other]);
  if (others.length === 0) return null;
  const found = changed.value;
  return (
    <section aria-label="Compared">
      <h2>What has changed</h2>
      <div class="tools">
        <label>
          since{" "}
          <select aria-label="Other profile" value={other ?? ""} onChange={(event) => go({ against: event.currentTarget.value || null })}>
            <option value="">choose a profile</option>
            {others.map((one) => (
              <option key={one} value={one}>
                {shown(one, 80)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {other && found && (
        <div class="two">
          <Table title="a step" rows={[found.step, ...found.parts]} />
          <Table title="operator" rows={found.operators.slice(0, 15)} />
          {found.settings.length > 0 && (
            <table class="rows">
              <thead>
                <tr><th>setting</th><th>before</th><th>now</th></tr>
              </thead>
              <tbody>
                {found.settings.map(([name, before, after]) => (
                  <tr key={name}>
                    <td>{shown(name)}</td>
                    <td class="muted">{shown(before)}</td>
                    <td>{shown(after)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
    </section>
  );
}

function Table({ title, rows }: { title: string; rows: readonly Changed[] }): JSX.Element {
  return (
    <table class="rows">
      <thead>
        <tr><th>{title}</th><th class="right">before</th><th class="right">now</th><th class="right">change</th></tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const before = num(row.before)!;
          const after = num(row.after)!;
          const change = before > 0 ? after / before - 1 : null;
          return (
            <tr key={row.what}>
              <td class="name">{shown(row.what)}</td>
              <td class="right number">{duration(before)}</td>
              <td class="right number">{duration(after)}</td>
              <td class={change === null || Math.abs(change) < 0.05 ? "right number muted" : change < 0 ? "right number better" : "right number worse"}>
                {change === null ? (after > 0 ? "new" : "") : `${change < 0 ? "−" : "+"}${Math.round(Math.abs(100 * change))} %`}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
