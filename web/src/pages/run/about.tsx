// The run itself: what was started, on what, what is watched and what is not.

import type { ComponentChildren, JSX } from "preact";
import { control, lastStep, rows, summary } from "../../state";
import { count, duration, shown, value, when } from "../../text";
import { Ranks } from "./ranks";

// what rules need to know of a framework, and says nothing to its user
const INNER = new Set(["absent_gradients", "unknown_names"]);

function Line({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

export function About(): JSX.Element {
  const { info, end, row, networks, parts: all, coverage, replays, lost, devices } = summary.value!;
  const parts = all.filter((one) => one.kind !== "hook");
  const hooks = all.filter((one) => one.kind === "hook");
  const seconds = rows.value?.seconds ?? [];
  const times = rows.value?.time ?? [];
  // the first step waits for everything lazy: a mean would be of no step at all
  const median = seconds.map(Number).sort((a, b) => a - b)[seconds.length >> 1] ?? NaN;
  return (
    <div class="about">
      <section>
        <h3>Run</h3>
        <dl>
          <Line name="command">
            <code>{shown(info.command.join(" "), 2000)}</code>
          </Line>
          <Line name="folder">
            <code>{shown(row.path, 2000)}</code>
          </Line>
          <Line name="framework">{shown(row.framework) || "–"}</Line>
          <Line name="machine">
            {[info.python && `Python ${info.python}`, info.platform, devices.join(", ")]
              .filter((one): one is string => Boolean(one))
              .map((one) => shown(one))
              .join(" · ") || "–"}
          </Line>
          <Line name="started">
            {when(Number(info.started))}
            {times.length > 0 && `, ran ${duration(Number(times[times.length - 1]) - Number(info.started))}`}
          </Line>
          <Line name="steps">
            {value(lastStep.value + 1)}
            {seconds.length > 0 && `, median ${duration(median)}`}
          </Line>
          <Line name="ended">
            {row.ended}
            {end?.script_exit !== undefined && end.script_exit !== null && `, exit code ${end.script_exit}`}
          </Line>
          <Line name="watching">
            level {info.level ?? "watch"}, budget {value(info.budget ?? 5)} %
            {end?.watch_cost ? `, cost ${value(Number(((Number(end.watch_cost) - 1) * 100).toFixed(1)))} %` : ""}
            {end?.budget_note && ` (${shown(end.budget_note)})`}
          </Line>
          {control.value && <Line name="connected">{shown(control.value.client)}</Line>}
        </dl>
      </section>
      <Ranks />
      <section>
        <h3>Coverage</h3>
        {coverage === null ? (
          <p class="muted">Known after the first steps.</p>
        ) : (
          <>
            <p>
              {value(coverage.watched ?? 0)} of {count(coverage.tensors ?? 0, "tensor")} watched.
            </p>
            {(coverage.gaps ?? []).map((gap) => (
              <p class="gap" key={gap.what}>
                <b>{shown(gap.what)}</b>: {shown(gap.reason, 600)}
                {gap.remedy && `; ${shown(gap.remedy, 600)}`}
              </p>
            ))}
          </>
        )}
      </section>
      <section>
        <h3>Models</h3>
        <table class="rows">
          <tbody>
            {networks.map((one) => (
              <tr key={one.name}>
                <td class="name">{shown(one.name) || "network"}</td>
                <td>{shown(one.type)}</td>
                <td class="right">{count(one.modules, "module")}</td>
                <td class="right">{count(one.parameters, "parameter")}</td>
                <td class="right">{value(one.trainable)} trainable</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {parts.length > 0 && (
        <section>
          <h3>Parts</h3>
          <table class="rows">
            <tbody>
              {parts.map((one) => (
                <tr key={`${one.kind} ${one.name}`}>
                  <td class="muted">{shown(one.kind)}</td>
                  <td class="name">{shown(one.name)}</td>
                  <td class="wrap">
                    {Object.entries(one.settings ?? {})
                      .filter(([name]) => !INNER.has(name))
                      .map(([name, set]) => `${shown(name)} ${value(set)}`)
                      .join(", ")}
                  </td>
                  <td class="muted">{one.source && `${shown(one.source.file)}:${one.source.line}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {hooks.length > 0 && (
        <section aria-label="Hooks">
          <h3>Hooks</h3>
          <table class="rows">
            <tbody>
              {hooks.map((one) => (
                <tr key={one.name}>
                  <td class="name">{shown(one.name)}</td>
                  <td>{count(Number(one.settings?.places ?? 0), "place")}</td>
                  <td class="muted">{one.settings?.removed ? "taken off" : "set"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {replays.length > 0 && (
        <section>
          <h3>Steps run again</h3>
          <table class="rows">
            <tbody>
              {replays.map((one) => (
                <tr key={`${one.step} ${one.strategy}`}>
                  <td class="number">step {one.step}</td>
                  <td>{shown(one.status)}</td>
                  <td>{shown([one.operator, one.module, one.phase].filter(Boolean).join(" · "))}</td>
                  <td class="muted">{shown(one.reason ?? "", 400)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {(lost ?? []).length > 0 && (
        <section>
          <h3>Not recorded</h3>
          {lost!.map((one) => (
            <p class="gap" key={one}>
              {shown(one, 600)}
            </p>
          ))}
        </section>
      )}
    </div>
  );
}
