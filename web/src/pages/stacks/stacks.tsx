// Stacks: all source lines that made operators, one of them with its text and its nodes, and the stack of a node.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { Empty, SearchField } from "../../parts/small";
import { at, get } from "../../net";
import { go, route } from "../../route";
import { attempt, rank } from "../../state";
import { count, shown, value } from "../../text";
import type { LineDetails, LinePage } from "../../types";
import { useNode } from "../graph/operator";
import { GraphChoice } from "../graph/graph";
import { base, loaded, select } from "../graph/state";
import { Stack } from "./stack";
import "./stacks.css";

const PAGE = 50;
const text = signal("");
const offset = signal(0);
const lines = signal<LinePage | null>(null);
let listedOf = "";
const line = signal<LineDetails | null>(null);

export function Stacks(): JSX.Element {
  useSignalEffect(() => {
    const run = route.value.run;
    const here = base.value;
    const asked = { text: text.value.trim(), offset: offset.value, limit: PAGE };
    if (run === null || here === null) return;
    if (asked.offset > 0 && listedOf !== here.graph) {
      offset.value = 0; // another graph begins with its first page
      return;
    }
    listedOf = here.graph;
    let wanted = true;
    void attempt(() => get<LinePage>(at(run, "graph/lines", { ...here, ...asked }))).then((got) => {
      if (wanted && got) lines.value = got;
    });
    return () => {
      wanted = false;
    };
  });
  useSignalEffect(() => {
    const { run, line: frame } = route.value;
    const here = base.value;
    if (run === null || here === null || frame === null) {
      line.value = null;
      return;
    }
    let wanted = true;
    void attempt(() => get<LineDetails>(at(run, "graph/line", { ...here, frame }))).then((got) => {
      if (wanted) line.value = got ?? null;
    });
    return () => {
      wanted = false;
    };
  });
  const node = useNode();
  if (!loaded.value) return <Empty title="Loading…" />;
  if (base.value === null)
    return (
      <Empty title="No stacks yet">
        <p>Source lines of operators are recorded in the third step of a training. They appear here by themselves.</p>
      </Empty>
    );
  return (
    <div class="stacks">
      <section class="stack-list" aria-label="Source lines">
        <div class="filters">
          <GraphChoice />
          <SearchField label="Search source lines" hint="Search file, function or code" words={text} then={() => (offset.value = 0)} />
          <span class="muted number">{count(lines.value?.total ?? 0, "line")}</span>
          {rank.value > 0 && <span class="muted small">rank {rank.value}</span>}
        </div>
        <Lines />
      </section>
      <section class="stack-side">
        {node !== null && route.value.line === null && (
          <div class="pad">
            <h2 class="name">{shown(node.box.label, 120)}</h2>
            <p class="muted small">{shown(node.box.path, 200)}</p>
            <p>
              <button class="link act" onClick={() => select(node.box)}>
                Show it in the graph
              </button>
            </p>
            <Stack rows={node.stack} />
          </div>
        )}
        {line.value !== null ? (
          <LineView of={line.value} />
        ) : (
          node === null && <Empty title="Choose a line">
            <p>Each line is one of your own that called an operator in the recorded step. A click shows what it made.</p>
          </Empty>
        )}
      </section>
    </div>
  );
}

function Lines(): JSX.Element {
  const page = lines.value;
  if (page === null) return <p class="pad muted">Loading…</p>;
  if (page.lines.length === 0) return <p class="pad muted">{text.value ? "No line fits." : "No line is known."}</p>;
  const to = Math.min(page.total, page.offset + PAGE);
  return (
    <>
      <div class="scroll">
        <table class="rows line-rows">
          <thead>
            <tr>
              <th>Line</th>
              <th>Code</th>
              <th class="right">Operators</th>
            </tr>
          </thead>
          <tbody>
            {page.lines.map((row) => (
              <tr
                key={row.frame}
                class={String(row.frame) === route.value.line ? "hit on" : "hit"}
                onClick={() => go({ line: String(row.frame), at: null })}
              >
                <td>
                  <button class="link name wrap">
                    {shown(row.file, 200)}:{row.line}
                  </button>
                  <div class="muted small">{shown(row.function, 80)}</div>
                </td>
                <td>
                  <code class="wrap">{shown(row.code, 160)}</code>
                </td>
                <td class="right number">{value(row.operators)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {page.total > PAGE && (
        <nav class="pager" aria-label="Pages of lines">
          <button disabled={page.offset === 0} onClick={() => (offset.value = Math.max(0, page.offset - PAGE))}>
            <Icon name="left" /> Earlier
          </button>
          <span class="number">
            {value(page.offset + 1)}–{value(to)} of {value(page.total)}
          </span>
          <button disabled={to >= page.total} onClick={() => (offset.value = page.offset + PAGE)}>
            Later <Icon name="right" />
          </button>
        </nav>
      )}
    </>
  );
}

function LineView({ of }: { of: LineDetails }): JSX.Element {
  return (
    <>
      <header class="panel-head">
        <h2 class="name ellipsis">
          {shown(of.file, 200)}:{of.line}
        </h2>
        <span class="grow" />
        <button class="quiet" aria-label="Close the line" onClick={() => go({ line: null })}>
          <Icon name="cross" />
        </button>
      </header>
      <div class="scroll">
        {of.lines.length === 0 ? (
          <p class="pad muted">The text of this file was not recorded.</p>
        ) : (
          <pre class="source" aria-label="Source around the line">
            {of.lines.map((text_, index) => (
              <div key={index} class={of.first + index === of.line ? "on" : ""} aria-current={of.first + index === of.line}>
                <span class="line-number">{of.first + index}</span>
                {shown(text_.replaceAll("\t", "    "), 400)}
              </div>
            ))}
          </pre>
        )}
        <div class="pad">
          <h3>{count(of.total, "operator")} from here and from what it calls</h3>
          <ul class="line-nodes" aria-label="Operators of this line">
            {of.nodes.map((box) => (
              <li key={box.key}>
                <button class="link" onClick={() => select(box)}>
                  <span class={`dot ${box.kind}`} aria-hidden="true" /> <span class="name">{shown(box.label, 80)}</span>{" "}
                  <span class="muted">{shown(box.path, 120)}</span>
                </button>
              </li>
            ))}
          </ul>
          {of.total > of.nodes.length && <p class="muted small">The first {value(of.nodes.length)} are listed.</p>}
        </div>
      </div>
    </>
  );
}
