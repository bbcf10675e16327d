// One tensor: its statistics now and before, its values as heat map, table and images, what they were elsewhere, how a
// statistic has moved, and what stands around it.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Command, Empty } from "../../parts/small";
import { at } from "../../net";
import { follow, go, route } from "../../route";
import { conditions, step } from "../../state";
import { count, nodeName, setting, shape, shown, value } from "../../text";
import type { Hit, TensorPage, TensorRow } from "../../types";
import { details } from "../run/inspector";
import { HeatMap } from "./heat";
import { History } from "./history";
import { RelationsView } from "./relations";
import { heat, id, page, query, refused, setSlice, slice, valueStep, values, view, wrong } from "./state";
import { StatisticsTable } from "./statistics";
import { Spread } from "./spread";
import { Against, Cells } from "./values";
import "./tensor.css";

export function Tensor(): JSX.Element {
  if (id.value === null) return <Choose />;
  const now = page.value;
  if (refused.value)
    return (
      <Empty title="This tensor is not in the run">
        <p>{shown(refused.value, 500)}</p>
      </Empty>
    );
  if (now === null) return <Empty title="Loading…" />;
  return (
    <div class="tensor-view">
      <Head of={now} />
      <div class="tensor-columns">
        <div class="tensor-main">
          <StatisticsTable of={now} />
          <Values of={now} />
          <History of={now} />
        </div>
        <aside class="tensor-side">
          <Advice of={now} />
          <RelationsView of={now} />
        </aside>
      </div>
    </div>
  );
}

function Choose(): JSX.Element {
  const rows = route.value.node === null ? [] : (details.value?.tensors ?? []);
  return (
    <Empty title="No tensor is chosen">
      <p>
        {rows.length === 0
          ? "Select a module in the tree, then one of its tensors; or “View” beside a hit."
          : `Tensors of ${nodeName(route.value.node ?? "")}:`}
      </p>
      <ul>
        {rows.map((row: TensorRow) => (
          <li key={row.info.id}>
            <button class="link" onClick={() => view(row.info.id)}>
              <span class="name">{shown(row.name || row.info.slot, 200)}</span>{" "}
              <span class="muted">
                {row.info.kind.replace("_", " ")} {row.info.op ? `${shown(row.info.op, 80)} ` : ""}
                {shown(row.info.slot, 60)}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </Empty>
  );
}

function Head({ of }: { of: TensorPage }): JSX.Element {
  const { info } = of;
  return (
    <header class="tensor-title">
      <h2 class="name wrap">
        {nodeName(of.name)} <span class="muted">{shown(info.slot, 80)}</span>
      </h2>
      <span class="muted">
        {info.kind.replace("_", " ")} · {shown(info.dtype ?? "", 40)} {shape(info.shape)} · {shown(info.device ?? "cpu", 40)}
        {info.op && ` · ${shown(info.op, 80)}`}
        {info.network && ` · ${shown(info.network, 60)}`}
      </span>
      {info.source && (
        <span class="muted small">
          {shown(info.source.file, 120)}:{info.source.line} <code>{shown(info.source.code ?? "", 160)}</code>
        </span>
      )}
      <span class="grow" />
      <a class="button" {...follow({ tab: "graph", node: info.node, network: info.network || null, at: null })}>
        In the graph
      </a>
    </header>
  );
}

const images = signal(0);
const drawnAs = signal<"heat" | "table" | "images">("heat");

function Values({ of }: { of: TensorPage }): JSX.Element {
  const there = valueStep.value;
  if (there === null)
    return (
      <section class="tensor-part">
        <h3>Values</h3>
        <p class="muted">
          Only statistics of this tensor were kept. Values are kept in a step that went wrong, when it is run again, and
          in the steps you name:
        </p>
        <Command text={`tensight run --steps ${Math.max(0, step.value)} …`} />
      </section>
    );
  const now = values.value;
  const kind = drawnAs.value === "images" && of.images === 0 ? "heat" : drawnAs.value;
  const files = query.value;
  const link = (format: string): string =>
    at(route.value.run!, "tensor/download", {
      tensor: files.tensor,
      rank: files.rank,
      step: files.step,
      slice: files.slice,
      format,
    });
  const from = of.kept.indexOf(there);
  return (
    <section class="tensor-part">
      <div class="tensor-tools">
        <h3>Values</h3>
        <span class="joined-buttons">
          <button disabled={from <= 0} title="The kept step before" onClick={() => go({ step: of.kept[from - 1]! })}>
            ◂
          </button>
          <select
            aria-label="Step of the values"
            value={there}
            onChange={(event) => go({ step: Number(event.currentTarget.value) })}
          >
            {of.kept.map((one) => (
              <option key={one} value={one}>
                step {one}
              </option>
            ))}
          </select>
          <button
            disabled={from < 0 || from === of.kept.length - 1}
            title="The kept step after"
            onClick={() => go({ step: of.kept[from + 1]! })}
          >
            ▸
          </button>
        </span>
        <SliceForm of={of} />
        <Against of={of} at={there} />
        <span class="tensor-files">
          <a class="button" href={link("npy")} download>
            .npy
          </a>
          <a class="button" href={link("safetensors")} download>
            .safetensors
          </a>
        </span>
      </div>
      {there !== step.value && (
        <p class="muted small">
          Values of step {step.value} were not kept; these are of step {there}.
        </p>
      )}
      {wrong.value && <p class="form-error">{shown(wrong.value, 400)}</p>}
      {now?.difference && (
        <p class={now.difference.different > 0 ? "difference bad" : "difference"} data-testid="difference">
          {now.difference.different === 0
            ? `The same as at ${shown(now.other, 120)}, within the tolerance.`
            : `${count(now.difference.different, "value")} of ${value(now.difference.count)} differ from ${shown(now.other, 120)}; the first at [${now.difference.first?.join(", ") ?? ""}], the largest difference ${value(now.difference.max_abs)} at [${now.difference.worst?.join(", ") ?? ""}], ${value(now.difference.mean_abs)} in the mean.`}{" "}
          What is drawn is the difference.
        </p>
      )}
      <div class="segments" role="group" aria-label="Drawn as">
        {(["heat", "table", ...(of.images > 0 ? (["images"] as const) : [])] as const).map((one) => (
          <button key={one} class={kind === one ? "on" : ""} aria-pressed={kind === one} onClick={() => (drawnAs.value = one)}>
            {one === "heat" ? "heat map" : one}
          </button>
        ))}
      </div>
      {kind === "images" ? (
        <Images of={of} at={there} />
      ) : kind === "heat" ? (
        heat.value && !wrong.value && <HeatMap of={heat.value} />
      ) : (
        now && <Cells of={now} />
      )}
      {now && <Spread of={now} />}
    </section>
  );
}

function SliceForm({ of }: { of: TensorPage }): JSX.Element {
  return (
    <form
      class="slice-form"
      onSubmit={(event) => {
        event.preventDefault();
        setSlice(new FormData(event.currentTarget).get("slice") as string);
      }}
    >
      <label class="check small">
        slice
        <input
          name="slice"
          key={slice.value}
          defaultValue={slice.value}
          placeholder="[0, :, 3:5]"
          aria-label="Slice"
          title={`Of shape ${shape(of.info.shape)}; Enter shows it`}
        />
      </label>
    </form>
  );
}

function Images({ of, at: from }: { of: TensorPage; at: number }): JSX.Element {
  const many = 12;
  const first = Math.min(images.value, Math.max(0, of.images - 1));
  const list = Array.from({ length: Math.min(many, of.images - first) }, (_, index) => first + index);
  return (
    <div class="images">
      <ul aria-label="Images">
        {list.map((one) => (
          <li key={one}>
            <img
              alt={`Image ${one} of the batch`}
              src={at(route.value.run!, "tensor/image", { tensor: of.info.id, rank: of.rank, step: from, image: one || null })}
            />
            <span class="small muted">{one}</span>
          </li>
        ))}
      </ul>
      {of.images > many && (
        <p>
          <button disabled={first === 0} onClick={() => (images.value = Math.max(0, first - many))}>
            Earlier
          </button>{" "}
          <button disabled={first + many >= of.images} onClick={() => (images.value = first + many)}>
            Later
          </button>{" "}
          <span class="muted number">of {of.images}</span>
        </p>
      )}
    </div>
  );
}

/** What was hit on this tensor, what it may mean and what to try. */
function Advice({ of }: { of: TensorPage }): JSX.Element {
  const hits = of.hits.filter((hit) => !hit.error);
  return (
    <section class="tensor-part" aria-label="Advice">
      <h3>Hits in step {of.seen_step}</h3>
      {hits.length === 0 ? <p class="muted">None on this tensor.</p> : hits.map((hit, index) => <OneHit key={index} hit={hit} />)}
    </section>
  );
}

function OneHit({ hit }: { hit: Hit }): JSX.Element {
  const form = conditions.value.find((one) => one.code === hit.condition);
  const pairs = Object.entries(hit.actual ?? {});
  return (
    <div class="one-hit">
      <p>
        <span class="code-tag bad">{shown(hit.condition, 12)}</span> <b>{shown(form?.title ?? hit.name, 120)}</b>
      </p>
      <p class="small number">
        {pairs.map(([name, found]) => {
          const [word, sign] = setting(name);
          const set = hit.threshold?.[name];
          return `${word} ${value(found)}${set === undefined ? "" : ` (set: ${sign} ${value(set)})`}`;
        }).join(", ")}
      </p>
      {hit.note && <p class="warn-text small">{shown(hit.note, 300)}</p>}
      {form && form.advice.length > 0 && (
        <ol class="small">
          {form.advice.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ol>
      )}
    </div>
  );
}
