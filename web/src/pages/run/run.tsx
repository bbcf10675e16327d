// One run: header, tree and watchpoints at the left, findings first in the middle, a node at the right, the step below.

import type { JSX } from "preact";
import { Empty } from "../../parts/small";
import { follow, home, route, TABS, type Tab } from "../../route";
import { control, dialog, isLive, rows, summary, trouble, welcome } from "../../state";
import { shown } from "../../text";
import { Data } from "../data/data";
import { Graph } from "../graph/graph";
import { Stacks } from "../stacks/stacks";
import { Tensor } from "../tensor/tensor";
import { Time } from "../time/time";
import { About } from "./about";
import { Curves } from "./curves";
import { Findings } from "./findings";
import { Header } from "./header";
import { AskTerminate, Help } from "./help";
import { Hits } from "./hits";
import { Inspector } from "./inspector";
import { Output } from "./output";
import { useRanks } from "./ranks";
import { Scrubber } from "./scrubber";
import { Tree } from "./tree";
import { WatchpointForm } from "./watchpoint_form";
import { Offer, Watchpoints } from "./watchpoints";

const NAMES: Record<Tab, string> = { findings: "Findings", hits: "Hits", graph: "Graph", tensor: "Tensor", stacks: "Stacks", curves: "Curves", data: "Data", time: "Time", output: "Output", run: "Run" };

export function RunPage(): JSX.Element {
  useRanks();
  if (summary.value === null)
    return (
      <div class="run-page bare">
        <Header />
        {trouble.value === null ? <Empty title="Loading…" /> : <Unreadable />}
      </div>
    );
  return (
    <div class={route.value.node === null ? "run-page" : "run-page with-node"}>
      <Header />
      {isLive.value && <Offer />}
      <div class="work">
        <div class="side">
          <Tree />
          <Watchpoints />
        </div>
        <main class="middle">
          <Tabs />
          <div class="tab-body" role="tabpanel" aria-labelledby={`tab-${route.value.tab}`}>
            {route.value.tab === "findings" ? (
              <Findings />
            ) : route.value.tab === "hits" ? (
              <Hits />
            ) : route.value.tab === "graph" ? (
              <Graph />
            ) : route.value.tab === "tensor" ? (
              <Tensor />
            ) : route.value.tab === "stacks" ? (
              <Stacks />
            ) : route.value.tab === "curves" ? (
              <Curves />
            ) : route.value.tab === "data" ? (
              <Data />
            ) : route.value.tab === "time" ? (
              <Time />
            ) : route.value.tab === "output" ? (
              <Output />
            ) : (
              <About />
            )}
          </div>
        </main>
        <Inspector />
      </div>
      <Scrubber />
      {dialog.value === "help" && <Help />}
      {dialog.value === "watchpoint" && <WatchpointForm />}
      {dialog.value === "terminate" && <AskTerminate />}
    </div>
  );
}

function Tabs(): JSX.Element {
  const findings = summary.value!.findings.filter((one) => !one.finding.muted).length;
  const hits = rows.value?.hits.reduce((a, b) => a + b, 0) ?? 0;
  const counts: Partial<Record<Tab, number>> = { findings, hits };
  return (
    <nav class="tabs" role="tablist" aria-label="Views">
      {TABS.map((tab) => (
        <a
          key={tab}
          id={`tab-${tab}`}
          role="tab"
          aria-selected={route.value.tab === tab}
          class={route.value.tab === tab ? "on" : ""}
          {...follow({ tab })}
        >
          {NAMES[tab]}
          {(counts[tab] ?? 0) > 0 && <span class={tab === "findings" ? "count loud" : "count"}>{counts[tab]}</span>}
        </a>
      ))}
    </nav>
  );
}

function Unreadable(): JSX.Element {
  const error = trouble.value!;
  const waits = error.code === 422 && (control.value !== null || welcome.value?.mode === "run");
  if (waits)
    return (
      <Empty title="Waiting for the training">
        <p>It has started and has not recorded anything yet. This page goes on by itself.</p>
      </Empty>
    );
  return (
    <Empty
      title={
        error.code === 404
          ? "This run is not here"
          : error.code === 0
            ? "The server does not answer"
            : "This run cannot be shown"
      }
    >
      <p>{shown(error.message, 1000)}</p>
      {error.code === 0 ? (
        <p>
          Look at the terminal in which it was started. A finished run opens again by <code>tensight view</code>.
        </p>
      ) : (
        welcome.value?.mode !== "run" && (
          <p>
            <button onClick={home}>All runs</button>
          </p>
        )
      )}
    </Empty>
  );
}
