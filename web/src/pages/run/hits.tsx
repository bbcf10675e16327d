// The hits: in order of execution, filtered, paged, each with what was set and what was found.

import { computed, effect, signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { Empty, Value } from "../../parts/small";
import { at, get, post } from "../../net";
import { go, route } from "../../route";
import { attempt, conditions, rank, sequence, step, summary } from "../../state";
import { count, nodeName, setting, shown, value } from "../../text";
import type { Hit, HitPage } from "../../types";
import { view } from "../tensor/state";

const PAGE = 50;
const page = signal<HitPage | null>(null);
const offset = signal(0);
const thisStep = signal(false);
const condition = signal("");
const kind = signal("");
const watchpoint = signal("");
const network = signal("");
const name = signal("");
const own = signal(false);
const errors = signal(false);
const rechecked = signal<HitPage | null>(null);
const open = signal(""); // the hit whose row is open
const answered = signal(""); // the question that `page` answers

const query = computed(() => ({
  step: thisStep.value ? step.value : null,
  rank: summary.value && summary.value.row.ranks > 1 ? rank.value : null,
  condition: condition.value,
  kind: kind.value,
  watchpoint: watchpoint.value,
  network: network.value,
  name: name.value,
  own: own.value ? 1 : null,
  errors: errors.value ? 1 : null,
  offset: offset.value,
  limit: PAGE,
}));

let filteredRun: string | null = null;
effect(() => {
  if (route.value.run === filteredRun) return;
  filteredRun = route.value.run; // another run has other watchpoints and networks
  condition.value = kind.value = watchpoint.value = network.value = name.value = open.value = "";
  thisStep.value = false;
  offset.value = 0;
  rechecked.value = null;
});

const asking = computed(() => JSON.stringify([route.value.run, query.value]));
const keyOf = (hit: Hit): string => `${hit.step} ${hit.rank ?? 0} ${hit.order ?? 0} ${hit.watchpoint} ${hit.tensor}`;

/** Judges the step that is shown again, with the watchpoints of now. */
export async function recheck(): Promise<void> {
  const run = route.peek().run!;
  const got = await attempt(() =>
    post<HitPage>(
      at(run, "recheck", { step: step.peek(), rank: rank.peek(), limit: 500, errors: errors.peek() ? 1 : null }),
    ),
  );
  if (!got) return;
  rechecked.value = got;
  open.value = "";
  go({ tab: "hits" });
}

/** Goes to the next or previous hit from where we are. */
export async function nextHit(direction: 1 | -1): Promise<void> {
  const list =
    (rechecked.peek() ?? page.peek())?.hits ??
    (await attempt(() => get<HitPage>(at(route.peek().run!, "hits", { limit: PAGE }))))?.hits ??
    [];
  if (list.length === 0) return;
  const now = list.findIndex((one) => keyOf(one) === open.peek());
  const next =
    now < 0 ? (direction > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, now + direction));
  select(list, next);
}

function select(list: readonly Hit[], index: number): void {
  const hit = list[index]!;
  open.value = keyOf(hit);
  go({ tab: "hits", step: hit.step, node: hit.node, network: hit.network || null });
  requestAnimationFrame(() => document.querySelector('[data-open="true"]')?.scrollIntoView({ block: "nearest" }));
}

export function Hits(): JSX.Element {
  useSignalEffect(() => {
    const run = route.value.run;
    const asked = query.value;
    const mine = asking.value;
    void sequence.value;
    if (run === null) return;
    let wanted = true;
    void attempt(() => get<HitPage>(at(run, "hits", asked))).then((got) => {
      if (!wanted || !got) return;
      page.value = got;
      answered.value = mine;
    });
    return () => {
      wanted = false;
    };
  });
  const shownPage = rechecked.value ?? page.value;
  if (shownPage === null) return <Empty title="Loading…" />;
  return (
    <div class="hits">
      {rechecked.value !== null ? (
        <div class="banner">
          <span>
            Step {step.value} judged again with the watchpoints of now: {count(rechecked.value.total, "hit")}.{" "}
            {rechecked.value.note && shown(rechecked.value.note)}
          </span>
          <button onClick={() => (rechecked.value = null)}>Back to the recorded hits</button>
        </div>
      ) : (
        <>
          <Filters page={shownPage} />
          {shownPage.note && <p class="pad muted">{shown(shownPage.note)}</p>}
        </>
      )}
      {shownPage.hits.length === 0 ? (
        <Empty title={filtered() ? "No hit fits these filters" : "No hits"}>
          <p>{filtered() ? "Loosen them to see more." : "No condition of a watchpoint has held so far."}</p>
        </Empty>
      ) : (
        <Table list={shownPage.hits} old={rechecked.value === null && answered.value !== asking.value} />
      )}
      {rechecked.value === null && <Pager page={shownPage} />}
    </div>
  );
}

const filtered = (): boolean =>
  thisStep.value || condition.value !== "" || kind.value !== "" || watchpoint.value !== "" || network.value !== "" || name.value !== "" || own.value || errors.value;

/** Watchpoints may have gone since they hit. */
function nameOf(id: string): string {
  const found = summary.value?.watchpoints.find((one) => String(one.id) === id);
  const form = conditions.value.find((one) => one.code === found?.condition);
  return found ? `${found.condition} ${found.name || form?.title || ""}` : `watchpoint ${id}`;
}

function Filters({ page: given }: { page: HitPage }): JSX.Element {
  const set = (work: () => void): void => {
    work();
    offset.value = 0;
    open.value = "";
  };
  return (
    <div class="filters" role="search" aria-label="Filter hits">
      <label class="check">
        <input
          type="checkbox"
          checked={thisStep.value}
          onChange={(event) => set(() => (thisStep.value = event.currentTarget.checked))}
        />{" "}
        only step {step.value}
      </label>
      <select
        aria-label="Condition"
        value={condition.value}
        onChange={(event) => set(() => (condition.value = event.currentTarget.value))}
      >
        <option value="">all conditions</option>
        {Object.entries(given.conditions).map(([code, n]) => (
          <option key={code} value={code}>
            {code} ({n})
          </option>
        ))}
      </select>
      <select
        aria-label="Kind"
        value={kind.value}
        onChange={(event) => set(() => (kind.value = event.currentTarget.value))}
      >
        <option value="">all kinds</option>
        {Object.entries(given.kinds).map(([one, n]) => (
          <option key={one} value={one}>
            {one.replace("_", " ")} ({n})
          </option>
        ))}
      </select>
      {Object.keys(given.watchpoints).length > 1 && (
        <select
          aria-label="Watchpoint"
          value={watchpoint.value}
          onChange={(event) => set(() => (watchpoint.value = event.currentTarget.value))}
        >
          <option value="">all watchpoints</option>
          {Object.entries(given.watchpoints).map(([one, n]) => (
            <option key={one} value={one}>
              {shown(nameOf(one), 60)} ({n})
            </option>
          ))}
        </select>
      )}
      {Object.keys(given.networks).length > 1 && (
        <select
          aria-label="Network of hits"
          value={network.value}
          onChange={(event) => set(() => (network.value = event.currentTarget.value))}
        >
          <option value="">all networks</option>
          {Object.entries(given.networks).map(([one, n]) => (
            <option key={one} value={one}>
              {shown(one, 60) || "no network"} ({n})
            </option>
          ))}
        </select>
      )}
      <input
        type="search"
        placeholder="Name"
        aria-label="Part of the name"
        value={name.value}
        onInput={(event) => set(() => (name.value = event.currentTarget.value))}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={own.value}
          onChange={(event) => set(() => (own.value = event.currentTarget.checked))}
        />{" "}
        own watchpoints
      </label>
      <label class="check" title="Also what could not be judged">
        <input
          type="checkbox"
          checked={errors.value}
          onChange={(event) => set(() => (errors.value = event.currentTarget.checked))}
        />{" "}
        not judged
      </label>
      <span class="grow" />
      <button title="Judge the step shown again with the watchpoints of now" onClick={() => void recheck()}>
        <Icon name="again" /> Recheck step {step.value}
      </button>
    </div>
  );
}

/** Rows that answer an old question can be read but not pressed: others are about to stand in their place. */
function Table({ list, old }: { list: readonly Hit[]; old: boolean }): JSX.Element {
  return (
    <div class="scroll grow-y" inert={old} aria-busy={old}>
      <table class="rows hit-rows">
        <thead>
          <tr>
            <th class="right">Step</th>
            <th>Watchpoint</th>
            <th>Kind</th>
            <th>Where</th>
            <th>Found</th>
            <th>Set</th>
          </tr>
        </thead>
        <tbody>
          {list.map((hit, index) => (
            <Row
              key={`${hit.step} ${hit.rank ?? 0} ${hit.order ?? 0} ${hit.watchpoint} ${index}`}
              hit={hit}
              list={list}
              index={index}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ hit, list, index }: { hit: Hit; list: readonly Hit[]; index: number }): JSX.Element {
  const isOpen = open.value === keyOf(hit);
  const bad = hit.actual && ("nan" in hit.actual || "inf" in hit.actual);
  return (
    <>
      <tr
        class={isOpen ? "hit on" : "hit"}
        data-open={isOpen}
        onClick={() => (isOpen ? (open.value = "") : select(list, index))}
      >
        <td class="right number">{hit.step}</td>
        <td>
          <button class="link" aria-expanded={isOpen}>
            <span class={bad ? "code-tag bad" : "code-tag"}>{shown(hit.condition)}</span> {shown(hit.name, 80)}
          </button>
        </td>
        <td class="muted">{hit.kind.replace("_", " ")}</td>
        <td>
          <span class="name wrap">
            {nodeName(hit.node)}{hit.call ? `#${hit.call}` : ""} <span class="muted">{hit.op && hit.kind.startsWith("operator") ? `${shown(hit.op, 80)} ` : ""}{shown(hit.slot, 80)}</span>
          </span>
        </td>
        <td>
          {hit.error ? <span class="warn-text">{ERRORS[hit.error] ?? hit.error}</span> : <Numbers of={hit.actual} />}
        </td>
        <td class="muted">
          <Numbers of={hit.threshold} set />
        </td>
      </tr>
      {isOpen && (
        <tr class="hit-more">
          <td colSpan={6}>
            <More hit={hit} />
          </td>
        </tr>
      )}
    </>
  );
}

const ERRORS: Record<string, string> = {
  nan: "holds NaN",
  inf: "holds Inf",
  no_prev: "no earlier value to compare with",
  out_of_memory: "too large for memory",
  no_value: "no value was recorded",
  dtype: "this dtype cannot be judged",
  shape: "the shape has changed",
  failed: "the check failed",
};

function Numbers({ of, set }: { of: Hit["actual"]; set?: boolean }): JSX.Element {
  const list = Object.entries(of ?? {});
  if (list.length === 0) return <>–</>;
  return (
    <>
      {list.map(([label, found]) => (
        <span class="pair-text" key={label}>
          <span class="muted">
            {setting(label)[0]} {set && setting(label)[1]}
          </span>{" "}
          <Value of={found} />
        </span>
      ))}
    </>
  );
}

function More({ hit }: { hit: Hit }): JSX.Element {
  const form = conditions.value.find((one) => one.code === hit.condition);
  return (
    <div class="advice">
      <p>
        <button onClick={() => view(hit.tensor, hit.step)}>View the tensor</button>{" "}
        <button onClick={() => go({ tab: "graph", at: null })}>Show in the graph</button>
      </p>
      {hit.note && <p class="warn-text">{shown(hit.note, 600)}</p>}
      {(hit.op || hit.source) && (
        <p>
          {hit.op && <code class="name">{shown(hit.op)} </code>}
          {hit.source && (
            <span class="muted">
              {shown(hit.source.file)}:{hit.source.line} <code>{shown(hit.source.code ?? "", 300)}</code>
            </span>
          )}
        </p>
      )}
      {form && (
        <>
          <p>
            <b>{form.title}.</b> {form.matters}
          </p>
          <div class="advice-lists">
            {form.causes.length > 0 && (
              <div>
                <h3>Likely causes</h3>
                <ol>
                  {form.causes.map((one) => (
                    <li key={one}>{one}</li>
                  ))}
                </ol>
              </div>
            )}
            {form.advice.length > 0 && (
              <div>
                <h3>What to try</h3>
                <ol>
                  {form.advice.map((one) => (
                    <li key={one}>{one}</li>
                  ))}
                </ol>
              </div>
            )}
          </div>
        </>
      )}
    </div>
  );
}

function Pager({ page: given }: { page: HitPage }): JSX.Element | null {
  if (given.total <= PAGE) return null;
  const to = Math.min(given.total, given.offset + PAGE);
  const turn = (by: number): void => {
    offset.value = Math.max(0, given.offset + by);
    open.value = "";
  };
  return (
    <nav class="pager" aria-label="Pages of hits">
      <button disabled={given.offset === 0} onClick={() => turn(-PAGE)}>
        <Icon name="left" /> Earlier
      </button>
      <span class="number">
        {value(given.offset + 1)}–{value(to)} of {value(given.total)}
      </span>
      <button disabled={to >= given.total} onClick={() => turn(PAGE)}>
        Later <Icon name="right" />
      </button>
    </nav>
  );
}
