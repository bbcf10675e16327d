// One module at the step that is shown: inputs, outputs, parameters, gradients, each with its statistics.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { Empty, Value } from "../../parts/small";
import { at, get, Refused } from "../../net";
import { go, route } from "../../route";
import { control, drive, lastStep, rank, step } from "../../state";
import { nodeName, shape, shown, value } from "../../text";
import type { NodeDetails, Stats, TensorRow } from "../../types";
import { view } from "../tensor/state";
import { pin } from "./curves";
import { edit } from "./watchpoints";

export const details = signal<NodeDetails | null>(null);
const refused = signal("");

const GROUPS: [title: string, kinds: readonly string[]][] = [
  ["Inputs", ["input", "module_input", "target", "prediction"]],
  ["Outputs", ["output", "activation", "loss"]],
  ["Parameters", ["weight", "frozen", "buffer"]],
  ["Gradients", ["gradient", "output_gradient", "input_gradient"]],
  ["Operators", ["operator", "operator_gradient"]],
];

export function Inspector(): JSX.Element | null {
  useSignalEffect(() => {
    const { run, node, network } = route.value;
    const asked = { node, network, step: step.value < 0 ? null : step.value, rank: rank.value };
    if (run === null || node === null) return;
    let wanted = true;
    get<NodeDetails>(`${at(run, "node", { ...asked, node: null })}&node=${encodeURIComponent(node)}`)
      .then((got) => {
        if (!wanted) return;
        details.value = got;
        refused.value = "";
      })
      .catch((error: unknown) => {
        if (wanted) refused.value = error instanceof Refused ? error.message : String(error);
      });
    return () => {
      wanted = false;
    };
  });
  const node = route.value.node;
  if (node === null) return null;
  const now = details.value;
  const paused = control.value?.state === "paused";
  return (
    <aside class="panel inspector" aria-label={`Node ${nodeName(node)}`}>
      <header class="panel-head">
        <h2 class="name ellipsis" title={nodeName(node)}>
          {nodeName(node)}
        </h2>
        <span class="grow" />
        {paused && (
          <button
            class="quiet"
            title="Run to this node, and not beyond the next step"
            onClick={() => void drive({ do: "run_to_node", node })}
          >
            <Icon name="node" /> Run to
          </button>
        )}
        <button class="quiet" title="Show it in the graph" onClick={() => go({ tab: "graph", at: null })}>
          Graph
        </button>
        <button
          class="quiet"
          title="Set a watchpoint on this node"
          onClick={() => edit({ condition: "TL", on: node === "" ? "*" : node })}
        >
          <Icon name="eye" /> Watch
        </button>
        <button class="quiet" aria-label="Close the node" onClick={() => go({ node: null, network: null })}>
          <Icon name="cross" />
        </button>
      </header>
      <div class="scroll">
        {refused.value ? (
          <Empty title="This node is not in the run">
            <p>{shown(refused.value)}</p>
          </Empty>
        ) : now === null || now.path !== node ? (
          <p class="pad muted">Loading…</p>
        ) : (
          <Details of={now} />
        )}
      </div>
    </aside>
  );
}

function Details({ of }: { of: NodeDetails }): JSX.Element {
  const module = of.module;
  const settings = Object.entries(module?.settings ?? {});
  return (
    <>
      <div class="pad about-node">
        {module && <b>{shown(module.type)}</b>}
        {of.network && <span class="muted"> in {shown(of.network)}</span>}
        {settings.length > 0 && (
          <div class="muted small">{settings.map(([name, set]) => `${shown(name)}=${value(set)}`).join(", ")}</div>
        )}
        {module?.source && (
          <div class="muted small">
            {shown(module.source.file)}:{module.source.line} <code>{shown(module.source.code ?? "", 200)}</code>
          </div>
        )}
      </div>
      {of.tensors.length === 0 && (
        <p class="pad muted">Nothing of this module itself is watched; open what is inside it.</p>
      )}
      {GROUPS.map(([title, kinds]) => {
        const list = of.tensors.filter((row) => kinds.includes(row.info.kind));
        return list.length === 0 ? null : (
          <section key={title} class="tensors">
            <h3>{title}</h3>
            {list.map((row) => (
              <Tensor key={row.info.id} row={row} step={of.step} />
            ))}
          </section>
        );
      })}
    </>
  );
}

const SHOWN: [name: string, field: keyof Stats][] = [
  ["min", "min"],
  ["max", "max"],
  ["mean", "mean"],
  ["mean|x|", "abs_mean"],
  ["std", "std"],
  ["l2", "l2"],
];

function Tensor({ row, step: at }: { row: TensorRow; step: number }): JSX.Element {
  const { info, seen } = row;
  const stats = seen?.stats;
  const label = info.kind === "gradient" ? `${info.slot}.grad` : info.slot;
  return (
    <div class="tensor">
      <div class="tensor-head">
        <span class="name ellipsis" title={shown(row.name, 2000)}>
          {info.op ? `${shown(info.op)} ` : ""}
          {shown(label)}
        </span>
        {info.call ? <span class="small">call {info.call}</span> : null}
        <span class="muted small">{info.kind.replace("_", " ")}</span>
        {row.hits.map((code) => (
          <span class="code-tag bad" key={code}>
            {shown(code)}
          </span>
        ))}
        <span class="grow" />
        <span class="muted small number">
          {shown(info.dtype ?? "")} {shape(seen?.shape ?? info.shape)}{" "}
          {(info.device ?? "cpu") !== "cpu" && shown(info.device!)}
        </span>
        <button
          class="quiet"
          aria-label={`View ${info.kind.replace("_", " ")} ${info.op ? `${shown(info.op, 80)} ` : ""}${shown(row.name)} ${shown(info.slot, 80)}`}
          title={row.kept ? "Its values, statistics and relations" : "Its statistics and relations"}
          onClick={() => view(info.id)}
        >
          View
        </button>
        <button
          class="quiet"
          aria-label={`Curve of ${shown(row.name)}`}
          title="Draw a statistic of it over the steps"
          onClick={() => {
            pin(
              info.id,
              `${info.kind.replace("_", " ")} ${row.name || "(whole network)"}${info.kind === "gradient" || info.kind === "weight" ? "" : ` ${info.slot}`}`,
            );
            go({ tab: "curves" });
          }}
        >
          <Icon name="curve" />
        </button>
      </div>
      {seen?.error ? (
        <p class="warn-text small">not judged: {shown(seen.error)}</p>
      ) : !stats || (stats.count === 0 && !seen) ? (
        <p class="muted small">Not seen up to step {at}.</p>
      ) : stats.count === 0 ? (
        <p class="muted small">It is empty.</p>
      ) : (
        <>
          <Shares stats={stats} />
          {stats.min === undefined || stats.min === null ? (
            <p class="muted small">No value is finite.</p>
          ) : (
            <div class="stats">
              {SHOWN.map(([name, field]) => (
                <span key={name}>
                  <i>{name}</i> <Value of={stats[field] as number | null | undefined} digits={5} />
                </span>
              ))}
              {stats.change && (
                <span title="Mean size of the change against the step before, over the mean size before">
                  <i>change</i>{" "}
                  <Value
                    of={
                      Number(stats.change.before_abs_mean) > 0
                        ? Number(stats.change.abs_mean) / Number(stats.change.before_abs_mean)
                        : null
                    }
                    digits={5}
                  />
                </span>
              )}
            </div>
          )}
          {row.step !== at && (
            <p class="muted small">
              Last watched in step {row.step}
              {row.step < lastStep.value ? "; the steps between were watched less deeply" : ""}.
            </p>
          )}
        </>
      )}
    </div>
  );
}

/** How the values are shared out: a bar for the eye, words for everybody. */
export function Shares({ stats }: { stats: Stats }): JSX.Element {
  const parts: [name: string, css: string, n: number][] = [
    ["−Inf", "inf", stats.neg_inf ?? 0],
    ["negative", "neg", stats.negative ?? 0],
    ["zero", "zero", stats.zero ?? 0],
    ["positive", "pos", stats.positive ?? 0],
    ["Inf", "inf", stats.pos_inf ?? 0],
    ["NaN", "nan", stats.nan ?? 0],
  ];
  const there = parts.filter(([, , n]) => n > 0);
  return (
    <>
      <div class="shares" aria-hidden="true">
        {there.map(([name, css, n]) => (
          <span key={name} class={css} style={{ flexGrow: n, minWidth: "2px" }} />
        ))}
      </div>
      <div class="share-words small">
        {there.map(([name, css, n]) => (
          <span key={name} class={css === "nan" || css === "inf" ? "bad" : "muted"}>
            {value(n)} {name}
          </span>
        ))}
        <span class="muted">of {value(stats.count)}</span>
      </div>
    </>
  );
}
