// Search over all modules and operators of the graph; the server has the index.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { at, get } from "../../net";
import { route } from "../../route";
import { attempt } from "../../state";
import { shown, value } from "../../text";
import type { GraphFound } from "../../types";
import { base, select } from "./state";

const text = signal("");
const found = signal<GraphFound | null>(null);
let version = 0;

async function ask(words: string): Promise<void> {
  const mine = ++version;
  text.value = words;
  const here = base.peek();
  if (words.trim() === "" || here === null) {
    found.value = null;
    return;
  }
  const got = await attempt(() => get<GraphFound>(at(route.peek().run!, "graph/find", { ...here, text: words.trim() })));
  if (mine === version && got) found.value = got;
}

export function GraphSearch(): JSX.Element {
  const list = found.value;
  const close = (): void => {
    version++;
    text.value = "";
    found.value = null;
  };
  return (
    <div class="graph-search">
      <input
        type="search"
        placeholder="Search operators and modules"
        aria-label="Search the graph"
        value={text.value}
        onInput={(event) => void ask(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") close();
          if (event.key === "Enter" && list?.boxes[0]) {
            select(list.boxes[0]);
            close();
          }
        }}
      />
      {list && (
        <ul class="graph-found" aria-label="Found in the graph">
          {list.boxes.map((box) => (
            <li key={`${box.view} ${box.key}`}>
              <button
                class="node"
                onClick={() => {
                  select(box);
                  close();
                }}
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
