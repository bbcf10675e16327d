// Where the time of a run went: split, advice, steps, waits, timeline, modules, operators, lines, memory, ranks, a second profile.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { at } from "../../net";
import { Command, Empty } from "../../parts/small";
import { go, route } from "../../route";
import { duration, num, shown, value } from "../../text";
import type { RankTime, TimeAdvice } from "../../types";
import { Changes } from "./changes";
import { load, PARTS, refusal, view } from "./load";
import { Memory, Processor, Steps, Waits } from "./plots";
import { Flame, Lines, Operators, Ranks } from "./tables";
import "./time.css";
import { Timeline } from "./timeline";

export function Time(): JSX.Element {
  const run = route.value.run!;
  useEffect(() => void load(run), [run]);
  const found = view.value;
  if (refusal.value) return <Empty title="The profile cannot be read">{shown(refusal.value, 600)}</Empty>;
  if (found === null) return <Empty title="Loading…" />;
  if (found.ranks.length === 0)
    return (
      <Empty title="This run was not profiled">
        <p>A profile says where the time of a step goes and what to do about it. The script is not changed:</p>
        <Command text="tensight profile train.py" />
      </Empty>
    );
  const rank = found.ranks.find((one) => one.rank === route.value.rank) ?? found.ranks[0]!;
  const stepped = (rank.profile.steps ?? []).length > 0; // a profile of another tool may not say where steps end
  return (
    <div class="time">
      {stepped ? <Split of={rank} /> : <Notes of={rank} />}
      {stepped && <Advices of={rank.advice} />}
      {(rank.profile.tried ?? []).length > 0 && <Tried of={rank} />}
      {stepped && (
        <div class="two">
          <Steps of={rank} />
          <Waits of={rank} />
        </div>
      )}
      {stepped && num(rank.processors)! > 0 && <Processor of={rank} />}
      <Timeline of={rank} />
      <Flame of={rank} />
      <Operators of={rank} />
      <Lines of={rank} />
      <Memory of={rank} />
      {found.ranks.length > 1 && <Ranks of={found.ranks} />}
      <Changes run={run} others={found.others} />
    </div>
  );
}

function Split({ of }: { of: RankTime }): JSX.Element {
  const whole = num(of.seconds) || 1;
  const profile = of.profile;
  return (
    <section aria-label="A step">
      <h2>
        A step takes {duration(whole)} <span class="muted">({value(1 / whole, 3)} steps/s)</span>
      </h2>
      <div class="split" role="img" aria-label={PARTS.map((part) => `${part} ${percent(num(of.split[part])! / whole)}`).join(", ")}>
        {PARTS.map((part) => (
          <span key={part} class={`part-${part}`} style={{ width: `${(100 * num(of.split[part])!) / whole}%` }} title={`${part}: ${duration(num(of.split[part])!)}`} />
        ))}
      </div>
      <div class="time-legend">
        {PARTS.map((part) => (
          <span key={part}>
            <i class={`part-${part}`} />
            {part} {duration(num(of.split[part])!)} <span class="muted">{percent(num(of.split[part])! / whole)}</span>
          </span>
        ))}
      </div>
      <div class="figures small" style={{ marginTop: "8px" }}>
        <span>median <b>{duration(num(of.p50)!)}</b></span>
        <span>99th percentile <b>{duration(num(of.p99)!)}</b></span>
        {num(of.flops)! > 0 && <span>work <b>{value(num(of.flops)! / 1e9, 3)} GFLOP</b>, <b>{value(num(of.flops)! / 1e9 / whole, 3)} GFLOP/s</b>{of.utilisation !== null && <>, <b>{num(of.utilisation)! < 0.01 ? "less than 1 %" : percent(num(of.utilisation)!)}</b> of a large matrix product</>}</span>}
        <span>measuring <b>{duration(num(of.own)!)}</b> a step, left out</span>
        {of.trace_cost !== null && <span>traced steps took <b>{value(of.trace_cost, 3)}×</b></span>}
        {num(profile.compiling?.seconds)! > 0 && <span>compiling <b>{duration(num(profile.compiling!.seconds)!)}</b> in all</span>}
        {of.trace && (
          <a href={at(route.value.run!, "time/trace", { rank: of.rank })} download>
            Chrome trace
          </a>
        )}
      </div>
      <Notes of={of} />
    </section>
  );
}

function Notes({ of }: { of: RankTime }): JSX.Element {
  return (
    <>
      {(of.profile.notes ?? []).map((note) => (
        <p key={note} class="muted small">{shown(note)}</p>
      ))}
    </>
  );
}

function Advices({ of }: { of: TimeAdvice[] }): JSX.Element {
  return (
    <section aria-label="Advice">
      <h2>Advice</h2>
      {of.length === 0 && <p class="muted">Nothing was found that costs much time.</p>}
      {of.map((one) => {
        const { finding } = one;
        const where = finding.where;
        return (
          <article class="advice" key={finding.fault + finding.title}>
            <div>
              <span class="gain">may save {percent(num(one.gain)!)}</span>
              <b>{shown(finding.title)}</b>
            </div>
            {where.file && (
              <code class="wrap">
                {shown(where.file)}:{where.line} {shown(where.code ?? "", 160)}
              </code>
            )}
            <p>{shown(finding.why, 600)}</p>
            {(finding.fix ?? []).map((fix) => (
              <p key={fix}>→ {shown(fix, 400)}</p>
            ))}
            <p class="muted small">
              {(finding.evidence ?? []).map((fact) => `${fact.what} ${value(fact.value as never)}`).join(" · ")}
            </p>
          </article>
        );
      })}
    </section>
  );
}

function Tried({ of }: { of: RankTime }): JSX.Element {
  return (
    <section aria-label="Tried">
      <h2>Tried on a few steps</h2>
      <table class="rows">
        <thead>
          <tr><th>change</th><th class="right">before</th><th class="right">after</th><th class="right">saved</th><th /></tr>
        </thead>
        <tbody>
          {of.profile.tried!.map((one) => (
            <tr key={one.change}>
              <td>{shown(one.change)}</td>
              <td class="right number">{duration(num(one.before)!)}</td>
              <td class="right number">{duration(num(one.after)!)}</td>
              <td class="right number">{percent(1 - num(one.after)! / num(one.before)!)}</td>
              <td class="muted">{shown(one.note ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export const percent = (share: number): string => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : "–");
export const chooseRank = (rank: number): void => go({ rank });
