// The graph of a step: modules as boxes that open, what stands near what is selected, hits and statistics on top.

import type { JSX } from "preact";
import { Empty, Hops } from "../../parts/small";
import { go, route } from "../../route";
import { step } from "../../state";
import { count, nodeName, shown, value } from "../../text";
import { Canvas, fit } from "./canvas";
import { Drawing, KINDS } from "./drawing";
import { exportPicture } from "./export";
import "./graph.css";
import { OperatorPanel } from "./operator";
import { GraphSearch } from "./search";
import * as state from "./state";

const STATISTICS = ["", "abs_mean", "max", "min", "mean", "std", "l2", "zero", "nan", "inf"];

export function Graph(): JSX.Element {
  const row = state.current.value;
  if (!state.loaded.value) return <Empty title="Loading…" />;
  if (row === null)
    return (
      <Empty title="No graph yet">
        <p>
          {state.refused.value
            ? shown(state.refused.value, 500)
            : "The structure of a training is recorded in its third step. It appears here by itself."}
        </p>
      </Empty>
    );
  const placed = state.placed.value;
  const { near, name } = state.drawnAs.value;
  return (
    <div class="graph">
      <Tools />
      {(row.note || row.left_out > 0) && (
        <p class="graph-note">
          {shown(row.note, 300)}
          {row.left_out > 0 && ` ${count(row.left_out, "operator")} more ran in this step; they are not drawn.`}
        </p>
      )}
      <Crumbs />
      <div class="graph-body">
        {placed === null ? (
          <Empty title={state.refused.value ? "Nothing to draw" : "Loading…"}>
            {state.refused.value && (
              <>
                <p>{shown(state.refused.value, 500)}</p>
                {state.mode.value === "near" && (
                  <p>
                    <button onClick={() => state.show("whole")}>Show the whole graph</button>
                  </p>
                )}
              </>
            )}
          </Empty>
        ) : (
          <Canvas
            width={placed.width}
            height={placed.height}
            name={name}
            focus={near ? null : state.whereIs(placed, state.focus.value)}
          >
            <Drawing of={placed} flat={near} />
          </Canvas>
        )}
        {near && state.cut.value && <p class="graph-cut">There is more around it than is drawn.</p>}
      </div>
      {placed && <Legend of={placed} />}
      {route.value.at !== null && <OperatorPanel />}
    </div>
  );
}

/** Which of the recorded graphs is shown, when there are several: of ranks, of compiled code, of graph files. */
export function GraphChoice(): JSX.Element | null {
  const row = state.current.value;
  const all = state.rows.value;
  if (row === null || all.length < 2) return null;
  const ranks = new Set(all.map((one) => one.rank));
  return (
    <select
      aria-label="Which graph"
      value={`${row.rank} ${row.name}`}
      onChange={(event) => {
        const [of, ...words] = event.currentTarget.value.split(" ");
        go({ graph: words.join(" "), rank: Number(of), at: null, line: null });
      }}
    >
      {all.map((one) => (
        <option key={`${one.rank} ${one.name}`} value={`${one.rank} ${one.name}`}>
          {shown(one.name, 60)}
          {ranks.size > 1 ? `, rank ${one.rank}` : ""}
        </option>
      ))}
    </select>
  );
}

function Tools(): JSX.Element {
  const row = state.current.value!;
  const near = state.mode.value === "near";
  const placed = state.placed.value;
  return (
    <div class="graph-tools" role="toolbar" aria-label="Graph">
      <GraphChoice />
      <div class="segments" role="group" aria-label="Pass">
        {state.VIEWS.map((one) => (
          <button
            key={one}
            class={one === state.view.value ? "on" : ""}
            aria-pressed={one === state.view.value}
            title={`${value(row.operators[one] ?? 0)} operators`}
            onClick={() => go({ view: one === "forward" ? null : one, at: null })}
          >
            {one}
          </button>
        ))}
      </div>
      {row.networks.length > 1 && (
        <select
          aria-label="Network"
          value={route.value.network ?? ""}
          onChange={(event) => {
            const network = event.currentTarget.value;
            go({ network: network || null, node: network ? "" : null, at: null });
          }}
        >
          <option value="">all networks</option>
          {row.networks.map((one) => (
            <option key={one} value={one}>
              {shown(one, 60)}
            </option>
          ))}
        </select>
      )}
      <div class="segments" role="group" aria-label="How much is shown">
        <button
          class={near ? "on" : ""}
          aria-pressed={near}
          disabled={!state.selected.value}
          title={state.selected.value ? "What stands near the selection" : "Select a module first"}
          onClick={() => state.show("near")}
        >
          neighbourhood
        </button>
        <button class={near ? "" : "on"} aria-pressed={!near} onClick={() => state.show("whole")}>
          whole graph
        </button>
      </div>
      {near && <Hops of={state.hops} label="Hops" />}
      <select
        aria-label="Statistic shown on the boxes"
        value={state.statistic.value}
        onChange={(event) => (state.statistic.value = event.currentTarget.value)}
      >
        {STATISTICS.map((one) => (
          <option key={one} value={one}>
            {one === "" ? "no statistic" : `${one.replace("_", " ")} at step ${step.value}`}
          </option>
        ))}
      </select>
      <GraphSearch />
      <span class="graph-acts">
      {!near && (
        <button class="quiet" title="Close all boxes" onClick={state.closeAll}>
          Fold
        </button>
      )}
      <button class="quiet" title="Fit the drawing to the window" onClick={fit}>
        Fit
      </button>
      {placed && (
        <>
          <button class="quiet" onClick={() => void exportPicture("svg", `${route.value.run} ${row.name}`, placed.width, placed.height)}>
            SVG
          </button>
          <button class="quiet" onClick={() => void exportPicture("png", `${route.value.run} ${row.name}`, placed.width, placed.height)}>
            PNG
          </button>
        </>
      )}
      </span>
    </div>
  );
}

/** Where the selection stands; each part can be gone to. */
function Crumbs(): JSX.Element | null {
  const { node, network } = route.value;
  if (node === null) return null;
  const parts = node === "" ? [] : node.split(".").slice(0, 40);
  const home = network ?? state.current.value?.networks[0] ?? "";
  return (
    <nav class="crumbs" aria-label="Place of the selection">
      <button class="link" onClick={() => go({ node: "", at: null })}>
        {shown(home, 60) || nodeName("")}
      </button>
      {parts.map((part, index) => (
        <>
          <span class="muted">›</span>
          <button
            class="link"
            aria-current={index === parts.length - 1}
            onClick={() => go({ node: parts.slice(0, index + 1).join("."), at: null })}
          >
            {shown(part, 60)}
          </button>
        </>
      ))}
    </nav>
  );
}

function Legend({ of }: { of: state.Placed }): JSX.Element {
  const there = state.kindsIn(of);
  return (
    <ul class="legend" aria-label="Legend">
      {KINDS.filter(([kind]) => there.has(kind)).map(([kind, name]) => (
        <li key={kind}>
          <svg width="18" height="12" aria-hidden="true">
            <g class={`box ${kind}`}>
              <rect class="face" x="1" y="1" width="16" height="10" rx={kind === "module" || kind === "range" ? 2 : 5} />
            </g>
          </svg>
          {name}
        </li>
      ))}
      {there.has("hits") && (
        <li>
          <svg width="18" height="12" aria-hidden="true">
            <rect class="badge" x="1" y="1" width="16" height="10" rx="5" />
          </svg>
          hits at this step
        </li>
      )}
    </ul>
  );
}
