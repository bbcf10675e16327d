// Search over all modules and operators of the graph; the server has the index.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { at, get } from "../../net";
import { route } from "../../route";
import { attempt } from "../../state";
import { shown, value } from "../../text";
import type { GraphFound } from "../../types";
import { base, select } from "./state";

const text = signal("");
const found = signal<{ graph: string; asked: string; list: GraphFound } | null>(null);
let version = 0;

/** The graph that is searched, as the start of an address. */
function searched(): string | null {
  const here = base.value;
  return here === null || route.value.run === null ? null : at(route.value.run, "graph/find", { ...here });
}

async function ask(): Promise<GraphFound | null> {
  const mine = ++version;
  const graph = searched();
  const words = text.value.trim();
  if (words === "" || graph === null) {
    found.value = null;
    return null;
  }
  const asked = `${graph}&text=${encodeURIComponent(words)}`;
  if (found.peek()?.asked === asked) return found.peek()!.list;
  const list = await attempt(() => get<GraphFound>(asked));
  if (mine !== version || !list) return null;
  found.value = { graph, asked, list };
  return list;
}

export function GraphSearch(): JSX.Element {
  useSignalEffect(() => void ask()); // for other words, and for the same words when another graph is chosen
  // another graph has other boxes under the same keys: what was found in the last one is not offered in this one
  const list = found.value && found.value.graph === searched() ? found.value.list : null;
  const close = (): void => {
    version++;
    text.value = "";
    found.value = null;
  };
  const choose = (box: GraphFound["boxes"][number]): void => {
    select(box);
    close();
  };
  return (
    <div class="graph-search">
      <input
        type="search"
        placeholder="Search operators and modules"
        aria-label="Search the graph"
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") close();
          // what is listed may still be the answer to fewer letters
          if (event.key === "Enter") void ask().then((answer) => answer?.boxes[0] && choose(answer.boxes[0]));
        }}
      />
      {list && (
        <ul class="graph-found" aria-label="Found in the graph">
          {list.boxes.map((box) => (
            <li key={`${box.view} ${box.key}`}>
              <button
                class="node"
                onClick={() => choose(box)}
              >
                <span class={`dot ${box.kind}`} aria-hidden="true" />
                <span class="name ellipsis">
                  {box.key.startsWith("n") ? `${shown(box.path, 120)} ${shown(box.label, 80)}` : shown(box.path || box.network, 160)}
                </span>
                <span class="type">{box.view === "forward" ? shown(box.key.startsWith("n") ? box.kind : box.type, 40) : box.view}</span>
              </button>
            </li>
          ))}
          <li class="pad muted small">
            {list.total === 0 ? "Nothing fits." : list.total > list.boxes.length ? `${value(list.total)} in all: search more closely` : `${value(list.total)} found`}
          </li>
        </ul>
      )}
    </div>
  );
}
