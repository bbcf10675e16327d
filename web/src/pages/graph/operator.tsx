// One operator or parameter: what it reads, who reads it, its partner in the other pass, and its stack.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { at, get, Refused } from "../../net";
import { go, route } from "../../route";
import { shown } from "../../text";
import type { GraphBox, GraphNodePage } from "../../types";
import { Stack } from "../stacks/stack";
import { base, select } from "./state";

const page = signal<GraphNodePage | null>(null);
const refused = signal("");

/** Keeps `page` in step with the node that the address names. */
export function useNode(): GraphNodePage | null {
  useSignalEffect(() => {
    const { run, at: key } = route.value;
    const here = base.value;
    if (run === null || key === null || here === null || !key.startsWith("n")) {
      page.value = null;
      return;
    }
    let wanted = true;
    get<GraphNodePage>(at(run, "graph/node", { ...here, number: key.slice(1) }))
      .then((got) => {
        if (!wanted) return;
        page.value = got;
        refused.value = "";
      })
      .catch((error: unknown) => {
        if (!wanted) return;
        page.value = null;
        refused.value = error instanceof Refused ? error.message : String(error);
      });
    return () => {
      wanted = false;
    };
  });
  return page.value;
}

export function OperatorPanel(): JSX.Element {
  const now = useNode();
  if (now === null)
    return <section class="operator-panel pad muted">{refused.value ? shown(refused.value, 300) : "Loading…"}</section>;
  return (
    <section class="operator-panel" aria-label={`Operator ${shown(now.box.label, 120)}`}>
      <header>
        <b class="name">{shown(now.box.label, 120)}</b>
        <span class="muted">
          {now.box.kind}
          {now.box.kind === "operator" && `, ${now.phase}`}
          {now.box.path && ` in ${shown(now.box.path, 160)}`}
        </span>
        <span class="muted small">{shown(now.box.outputs.join(", "), 160)}</span>
        <span class="grow" />
        <button class="quiet" onClick={() => go({ tab: "stacks" })}>
          Stack
        </button>
        <button class="quiet" aria-label="Close the operator" onClick={() => go({ at: null })}>
          <Icon name="cross" />
        </button>
      </header>
      <div class="operator-lists">
        <List title="Reads" boxes={now.inputs} />
        <List title="Read by" boxes={now.readers} />
        {now.forward && <List title="Backward of" boxes={[now.forward]} />}
        {now.backward.length > 0 && <List title="Its backward" boxes={now.backward} />}
        <div>
          <h3>Stack</h3>
          <Stack rows={now.stack} most={3} />
        </div>
      </div>
    </section>
  );
}

function List({ title, boxes }: { title: string; boxes: readonly GraphBox[] }): JSX.Element {
  return (
    <div>
      <h3>{title}</h3>
      {boxes.length === 0 ? (
        <p class="muted small">nothing</p>
      ) : (
        <ul>
          {boxes.map((box) => (
            <li key={box.key}>
              <button class="link small" onClick={() => select(box)}>
                <span class={`dot ${box.kind}`} aria-hidden="true" /> <span class="name">{shown(box.label, 80)}</span>{" "}
                <span class="muted">{shown(box.path, 100)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
