// Findings: what went wrong, where, since when, why, and what to do.

import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { Empty } from "../../parts/small";
import { at, post } from "../../net";
import { follow, route } from "../../route";
import { attempt, control, lastStep, reload, rows, summary } from "../../state";
import { count, nodeName, shown, value } from "../../text";
import type { Finding, ShownFinding } from "../../types";

export function Findings(): JSX.Element {
  const about = summary.value!;
  const loud = about.findings.filter((one) => !one.finding.muted);
  const muted = about.findings.filter((one) => one.finding.muted);
  return (
    <div class="findings">
      {about.crash && (
        <div class="banner bad" role="alert">
          The script failed: {shown(about.crash)}
        </div>
      )}
      {loud.length === 0 ? (
        <Healthy muted={muted.length} />
      ) : (
        loud.map((one) => <Card key={`${one.key} ${one.finding.since_step}`} of={one} />)
      )}
      {muted.length > 0 && (
        <details class="muted-findings">
          <summary>{count(muted.length, "muted finding")}</summary>
          {muted.map((one) => (
            <Card key={`${one.key} ${one.finding.since_step}`} of={one} />
          ))}
        </details>
      )}
    </div>
  );
}

function Healthy({ muted }: { muted: number }): JSX.Element {
  const about = summary.value!;
  const coverage = about.coverage;
  const hits = rows.value?.hits.reduce((a, b) => a + b, 0) ?? 0;
  const going = about.row.ended === "running" && control.value?.state !== "ended";
  if (rows.value === null && about.row.steps > 0) return <Empty title="Loading…" />;
  // A profile is clocked, not watched: to call it healthy would claim what nobody has looked at.
  if (!going && lastStep.value >= 0 && !coverage && !about.networks.length && hits === 0 && muted === 0)
    return (
      <Empty title="Nothing here was watched for faults">
        <p>
          {count(lastStep.value + 1, "step")}. If it is a profile, <a {...follow({ tab: "time" })}>its times are here</a>.
        </p>
      </Empty>
    );
  return (
    <Empty
      title={
        lastStep.value < 0
          ? going
            ? "Waiting for the first step"
            : "No step was made"
          : muted > 0
            ? "Nothing but what you have muted"
            : going
              ? "Nothing wrong so far"
              : about.row.ended === "killed"
                ? "Nothing wrong was found so far: it was killed"
                : "Nothing wrong was found"
      }
    >
      <p>
        {lastStep.value < 0
          ? going
            ? "The training has started; its first step is not over yet."
            : "The run ended before its first step was over."
          : `${count(lastStep.value + 1, "step")}, ${count(hits, "hit")}.`}{" "}
        {about.row.ended === "killed" &&
          "The training was killed from outside before it could draw its last conclusions; what it wrote is all here. "}
        {coverage && `${value(coverage.watched ?? 0)} of ${count(coverage.tensors ?? 0, "tensor")} watched.`}
      </p>
      {coverage?.gaps?.map((gap) => (
        <p class="gap" key={gap.what}>
          <b>{shown(gap.what)}</b> is not watched: {shown(gap.reason, 600)}
          {gap.remedy && `; ${shown(gap.remedy, 600)}`}
        </p>
      ))}
      {hits > 0 && (
        <p>
          <a {...follow({ tab: "hits" })}>Look at the hits</a>: they are what conditions noticed, not yet a cause.
        </p>
      )}
    </Empty>
  );
}

function Card({ of }: { of: ShownFinding }): JSX.Element {
  const finding = of.finding;
  const then = finding.then ?? [];
  return (
    <article class={finding.muted ? "finding quietened" : "finding"} data-fault={finding.fault}>
      <header>
        <span class="finding-sign" aria-hidden="true">
          ✖
        </span>
        <h2>{shown(finding.title)}</h2>
        <span class="grow" />
        {finding.replay && (
          <span class="tag">
            {finding.replay === "exact" || finding.replay === "close"
              ? "rewound, looked again"
              : `looked again: ${shown(finding.replay)}`}
          </span>
        )}
        <span class="tag" title="How sure Tensight is of this cause">
          {value(Math.round(Number(finding.confidence) * 100))} % sure
        </span>
        <MuteButton of={of} />
      </header>
      <dl>
        <dt>where</dt>
        <dd>
          <Place finding={finding} />
        </dd>
        <dt>since</dt>
        <dd>
          <a {...follow({ step: finding.since_step })}>step {finding.since_step}</a>
          {finding.since && `, ${shown(finding.since, 1000)}`}
          {(finding.rank ?? 0) > 0 && `, rank ${finding.rank}`}
        </dd>
        <dt>why</dt>
        <dd>{shown(finding.why, 3000)}</dd>
        {(finding.evidence ?? []).length > 0 && (
          <>
            <dt>evidence</dt>
            <dd>
              <ul class="evidence">
                {finding.evidence!.map((one, i) => (
                  <li key={i}>
                    {shown(one.what, 600)}
                    {one.value !== null && (
                      <>
                        : <b class="number">{value(one.value)}</b>
                      </>
                    )}
                    {one.step !== null && (
                      <>
                        {" "}
                        <a class="small" {...follow({ step: one.step })}>
                          step {one.step}
                        </a>
                      </>
                    )}
                  </li>
                ))}
              </ul>
            </dd>
          </>
        )}
        {then.length > 0 && (
          <>
            <dt>then</dt>
            <dd>{then.map((one) => shown(one)).join(" → ")}</dd>
          </>
        )}
        <Steps word="fix" of={finding.fix} />
        <Steps word="confirm" of={finding.confirm} />
      </dl>
    </article>
  );
}

function Steps({ word, of }: { word: string; of: readonly string[] | undefined }): JSX.Element | null {
  if (!of || of.length === 0) return null;
  return (
    <>
      <dt>{word}</dt>
      <dd class={word}>
        {of.length === 1 ? (
          shown(of[0]!, 2000)
        ) : (
          <ol>
            {of.map((one, i) => (
              <li key={i}>{shown(one, 2000)}</li>
            ))}
          </ol>
        )}
      </dd>
    </>
  );
}

function Place({ finding }: { finding: Finding }): JSX.Element {
  const where = finding.where;
  const module = where.module;
  return (
    <>
      {where.parameter !== null && <code class="name">{shown(where.parameter)} </code>}
      {module !== null && (
        <a class="name" {...follow({ node: module, network: where.network, step: finding.since_step })}>
          {nodeName(module)}
        </a>
      )}
      {where.op !== null && <code class="name"> {shown(where.op)}</code>}
      {where.file !== null && (
        <span class="muted">
          {" "}
          {shown(where.file)}
          {where.line !== null && `:${where.line}`}
        </span>
      )}
      {where.parameter === null && module === null && where.op === null && where.file === null && "the whole training"}
      {where.code && <pre class="code">{shown(where.code.trim(), 1000)}</pre>}
    </>
  );
}

function MuteButton({ of }: { of: ShownFinding }): JSX.Element {
  const muted = of.finding.muted ?? false;
  return (
    <button
      class="quiet"
      title={muted ? "Let it interrupt again" : "Known and accepted: interrupt nobody with it any more"}
      onClick={() =>
        void attempt(async () => {
          await post(at(route.peek().run!, "mute"), { do: "mute", key: of.key, muted: !muted });
          await reload();
        })
      }
    >
      <Icon name="mute" /> {muted ? "Unmute" : "Mute"}
    </button>
  );
}
