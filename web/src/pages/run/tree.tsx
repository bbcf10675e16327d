// The tree of modules, with search and filters. Only what is open is drawn, so a hundred thousand nodes are no burden.

import { computed, effect, signal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../../parts/icons";
import { go, route } from "../../route";
import { nodes, rank } from "../../state";
import { nodeName, shown, value } from "../../text";
import type { NodeRow } from "../../types";

interface Branch {
  key: string;
  label: string;
  path: string;
  network: string;
  row: NodeRow | null;
  hits: number; // with all below
  children: Branch[];
}

const MOST_CHILDREN = 400;
const MOST_FOUND = 300;
const MOST_TYPES = 300;
const search = signal("");
const kind = signal("");
const type = signal("");
const network = signal("");
const ofRank = signal(""); // '' means every rank
const hitsOnly = signal(false);
const opened = signal<ReadonlySet<string>>(new Set());
const closed = signal<ReadonlySet<string>>(new Set());
const KINDS = [
  "weight",
  "gradient",
  "activation",
  "output",
  "output_gradient",
  "input",
  "buffer",
  "frozen",
  "loss",
  "operator",
];

/** What the chosen network and rank hold: they cut the tree, the other filters search it. */
const within = computed<readonly NodeRow[]>(() => {
  const all = nodes.value ?? [];
  if (network.value === "" && ofRank.value === "") return all;
  const asked = Number(ofRank.value);
  return all.filter(
    (row) =>
      (network.value === "" || row.network === network.value) &&
      (ofRank.value === "" || (row.ranks ?? []).includes(asked)),
  );
});

const hitsOf = (row: NodeRow): number => (ofRank.value === "" ? row.hits : (row.rank_hits?.[ofRank.value] ?? 0));

const unique = <T,>(list: Iterable<T>): T[] => [...new Set(list)];
const networks = computed(() => unique((nodes.value ?? []).map((row) => row.network)));
const ranks = computed(() => unique((nodes.value ?? []).flatMap((row) => row.ranks ?? [])).sort((a, b) => a - b));
const types = computed(() => unique((nodes.value ?? []).map((row) => row.type).filter(Boolean)).sort());

const branches = computed<Branch[]>(() => {
  const roots = new Map<string, Branch>();
  const places = new Map<string, Branch>();
  for (const row of within.value) {
    let root = roots.get(row.network);
    if (!root) {
      root = branch(row.network, "", row.network || "network");
      roots.set(row.network, root);
    }
    if (row.path === "") {
      root.row = row;
      continue;
    }
    let above = root;
    let path = "";
    for (const part of row.path.split(".")) {
      path = path === "" ? part : `${path}.${part}`;
      const key = `${row.network}\n${path}`;
      let here = places.get(key);
      if (!here) {
        here = branch(row.network, path, part);
        places.set(key, here);
        above.children.push(here);
      }
      above = here;
    }
    above.row = row;
  }
  const all = [...roots.values()];
  all.forEach(sum);
  return all;
});

function branch(network: string, path: string, label: string): Branch {
  return { key: `${network}\n${path}`, label, path, network, row: null, hits: 0, children: [] };
}

function sum(one: Branch): number {
  one.hits = (one.row ? hitsOf(one.row) : 0) + one.children.reduce((total, child) => total + sum(child), 0);
  return one.hits;
}

const found = computed<NodeRow[] | null>(() => {
  const text = search.value.trim().toLowerCase();
  if (text === "" && kind.value === "" && type.value === "" && !hitsOnly.value) return null;
  return within.value.filter(
    (row) =>
      (text === "" || `${row.path} ${row.type} ${row.network}`.toLowerCase().includes(text)) &&
      (kind.value === "" || (row.kinds as string[]).includes(kind.value)) &&
      (type.value === "" || row.type === type.value) &&
      (!hitsOnly.value || hitsOf(row) > 0),
  );
});

const isOpen = (one: Branch, depth: number): boolean =>
  opened.value.has(one.key) ||
  (!closed.value.has(one.key) && (depth < 1 || (route.value.node ?? "").startsWith(`${one.path}.`)));

function toggle(one: Branch, open: boolean): void {
  const into = new Set(opened.value);
  const outOf = new Set(closed.value);
  if (open) {
    into.add(one.key);
    outOf.delete(one.key);
  } else {
    into.delete(one.key);
    outOf.add(one.key);
  }
  opened.value = into;
  closed.value = outOf;
}

interface Line {
  branch: Branch;
  depth: number;
  open: boolean;
  more: number;
}

const lines = computed<Line[]>(() => {
  const list: Line[] = [];
  const walk = (one: Branch, depth: number): void => {
    const open = one.children.length > 0 && isOpen(one, depth);
    list.push({ branch: one, depth, open, more: 0 });
    if (!open) return;
    for (const child of one.children.slice(0, MOST_CHILDREN)) walk(child, depth + 1);
    if (one.children.length > MOST_CHILDREN)
      list.push({ branch: one, depth: depth + 1, open: false, more: one.children.length - MOST_CHILDREN });
  };
  for (const root of branches.value) walk(root, 0);
  return list;
});

let filtered: string | null = null;
effect(() => {
  const run = route.value.run;
  if (run === filtered) return;
  filtered = run; // another run has other networks, ranks and types
  network.value = ofRank.value = type.value = "";
});

export const focusSearch = (): void => document.getElementById("node-search")?.focus();

export function Tree(): JSX.Element {
  const rows = found.value;
  return (
    <section class="panel tree" aria-label="Modules">
      <header class="panel-head">
        <h2>Modules</h2>
        <span class="muted number">{value((rows ?? within.value).length)}</span>
        <span class="grow" />
        <label class="check" title="Only modules with hits">
          <input
            type="checkbox"
            checked={hitsOnly.value}
            onChange={(event) => (hitsOnly.value = event.currentTarget.checked)}
          />{" "}
          hits
        </label>
      </header>
      <input
        id="node-search"
        class="search"
        type="search"
        placeholder="Search name or type ( / )"
        aria-label="Search modules by name or type"
        value={search.value}
        onInput={(event) => (search.value = event.currentTarget.value)}
      />
      <div class="tree-filters" role="group" aria-label="Filters of modules">
        {networks.value.length > 1 && <Choice of={network} label="Network of modules" all="all networks" list={networks.value} />}
        {ranks.value.length > 1 && <Choice of={ofRank} label="Rank of modules" all="all ranks" list={ranks.value.map(String)} name={(one) => `rank ${one}`} />}
        <Choice of={kind} label="Kind of tensor" all="all kinds" list={KINDS} name={(one) => one.replace("_", " ")} />
        {types.value.length > 1 && <Choice of={type} label="Type of module" all="all types" list={types.value.slice(0, MOST_TYPES)} />}
      </div>
      <div class="scroll">
        {rows !== null ? <Found rows={rows} /> : nodes.value === null ? <p class="pad muted">Loading…</p> : <Lines />}
      </div>
    </section>
  );
}

interface Chosen {
  of: Signal<string>;
  label: string;
  all: string;
  list: readonly string[];
  name?: (one: string) => string;
}

function Choice({ of, label, all, list, name = (one) => shown(one, 60) || "network" }: Chosen): JSX.Element {
  return (
    <select aria-label={label} value={of.value} onChange={(event) => (of.value = event.currentTarget.value)}>
      <option value="">{all}</option>
      {list.map((one) => (
        <option key={one} value={one}>
          {name(one)}
        </option>
      ))}
    </select>
  );
}

function Found({ rows }: { rows: NodeRow[] }): JSX.Element {
  if (rows.length === 0) return <p class="pad muted">No module fits.</p>;
  return (
    <ul class="found" aria-label="Modules found">
      {rows.slice(0, MOST_FOUND).map((row) => (
        <li key={`${row.network}\n${row.path}`}>
          <button
            class={row.path === route.value.node && (!many() || row.network === route.value.network) ? "node on" : "node"}
            onClick={() => show(row)}
          >
            <span class="name ellipsis">{nodeName(row.path)}</span>
            <span class="type ellipsis">
              {shown(row.type)}
              {many() && ` · ${shown(row.network, 60)}`}
            </span>
            {hitsOf(row) > 0 && <span class="count">{value(hitsOf(row))}</span>}
          </button>
        </li>
      ))}
      {rows.length > MOST_FOUND && (
        <li class="pad muted">and {value(rows.length - MOST_FOUND)} more: search more closely</li>
      )}
    </ul>
  );
}

const many = (): boolean => networks.value.length > 1;

function Lines(): JSX.Element {
  const box = useRef<HTMLUListElement>(null);
  const selected = (line: Line): boolean =>
    line.branch.path === route.value.node &&
    (!many() || route.value.network === null || route.value.network === line.branch.network);
  const list = lines.value;
  const current = Math.max(0, list.findIndex(selected));
  useEffect(() => {
    box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [route.value.node]);
  const focus = (index: number): void => {
    (box.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  const onKey = (event: KeyboardEvent, line: Line, index: number): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const has = line.branch.children.length > 0;
    switch (event.key) {
      case "ArrowDown":
        focus(index + 1);
        break;
      case "ArrowUp":
        focus(index - 1);
        break;
      case "Home":
        focus(0);
        break;
      case "End":
        focus(list.length - 1);
        break;
      case "ArrowRight":
        if (has && !line.open) toggle(line.branch, true);
        else focus(index + 1);
        break;
      case "ArrowLeft":
        if (line.open) toggle(line.branch, false);
        else focus(list.slice(0, index).findLastIndex((one) => one.depth < line.depth));
        break;
      case "Enter":
      case " ":
        choose(line.branch);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  if (list.length === 0) return <p class="pad muted">No module has been seen yet.</p>;
  return (
    <ul role="tree" aria-label="Modules" ref={box} class="lines">
      {list.map((line, index) =>
        line.more > 0 ? (
          <li key={`${line.branch.key} more`} role="none" class="pad muted">
            and {value(line.more)} more: search
          </li>
        ) : (
          <li
            key={line.branch.key}
            role="treeitem"
            aria-level={line.depth + 1}
            aria-expanded={line.branch.children.length > 0 ? line.open : undefined}
            aria-selected={selected(line)}
            tabIndex={index === current ? 0 : -1}
            class={selected(line) ? "node on" : "node"}
            style={{ paddingLeft: `${6 + line.depth * 14}px` }}
            onKeyDown={(event) => onKey(event, line, index)}
            onClick={() => choose(line.branch)}
          >
            <span
              class="chevron"
              aria-hidden="true"
              onClick={(event) => {
                event.stopPropagation();
                toggle(line.branch, !line.open);
              }}
            >
              {line.branch.children.length > 0 && <Icon name={line.open ? "down" : "right"} />}
            </span>
            <span class="name ellipsis">{shown(line.branch.label)}</span>
            {line.branch.row && line.branch.row.type !== line.branch.label && (
              <span class="type ellipsis">{shown(line.branch.row.type)}</span>
            )}
            {line.branch.hits > 0 && (
              <span
                class={line.branch.row && hitsOf(line.branch.row) > 0 ? "count" : "count below"}
                title={`${line.branch.hits} hits here and below`}
              >
                {value(line.branch.hits)}
              </span>
            )}
          </li>
        ),
      )}
    </ul>
  );
}

function choose(one: Branch): void {
  if (one.row === null) toggle(one, !opened.peek().has(one.key));
  else show(one.row);
}

/** Goes to a module, and to a rank that has it: the chosen one, else the one that is shown, else its first. */
function show(row: NodeRow): void {
  const there = row.ranks ?? [];
  const elsewhere = there.length > 0 && !there.includes(rank.peek());
  const to = ofRank.peek() !== "" ? { rank: Number(ofRank.peek()) } : elsewhere ? { rank: there[0]! } : {};
  go({ node: row.path, network: many() ? row.network : null, ...to });
}
