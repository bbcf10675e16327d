// The tree of modules, with search and filters. Only what is open is drawn, so a hundred thousand nodes are no burden.

import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../../parts/icons";
import { go, route } from "../../route";
import { nodes } from "../../state";
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
const search = signal("");
const kind = signal("");
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

const branches = computed<Branch[]>(() => {
  const roots = new Map<string, Branch>();
  const places = new Map<string, Branch>();
  for (const row of nodes.value ?? []) {
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
  one.hits = (one.row?.hits ?? 0) + one.children.reduce((total, child) => total + sum(child), 0);
  return one.hits;
}

const found = computed<NodeRow[] | null>(() => {
  const text = search.value.trim().toLowerCase();
  if (text === "" && kind.value === "" && !hitsOnly.value) return null;
  return (nodes.value ?? []).filter(
    (row) =>
      (text === "" || `${row.path} ${row.type} ${row.network}`.toLowerCase().includes(text)) &&
      (kind.value === "" || (row.kinds as string[]).includes(kind.value)) &&
      (!hitsOnly.value || row.hits > 0),
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

export const focusSearch = (): void => document.getElementById("node-search")?.focus();

export function Tree(): JSX.Element {
  const rows = found.value;
  return (
    <section class="panel tree" aria-label="Modules">
      <header class="panel-head">
        <h2>Modules</h2>
        <span class="muted number">{value(nodes.value?.length ?? 0)}</span>
        <span class="grow" />
        <select
          aria-label="Kind of tensor"
          value={kind.value}
          onChange={(event) => (kind.value = event.currentTarget.value)}
        >
          <option value="">all kinds</option>
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {one.replace("_", " ")}
            </option>
          ))}
        </select>
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
      <div class="scroll">
        {rows !== null ? <Found rows={rows} /> : nodes.value === null ? <p class="pad muted">Loading…</p> : <Lines />}
      </div>
    </section>
  );
}

function Found({ rows }: { rows: NodeRow[] }): JSX.Element {
  if (rows.length === 0) return <p class="pad muted">No module fits.</p>;
  return (
    <ul class="found" aria-label="Modules found">
      {rows.slice(0, MOST_FOUND).map((row) => (
        <li key={`${row.network}\n${row.path}`}>
          <button
            class={row.path === route.value.node ? "node on" : "node"}
            onClick={() => go({ node: row.path, network: many() ? row.network : null })}
          >
            <span class="name ellipsis">{nodeName(row.path)}</span>
            <span class="type ellipsis">{shown(row.type)}</span>
            {row.hits > 0 && <span class="count">{value(row.hits)}</span>}
          </button>
        </li>
      ))}
      {rows.length > MOST_FOUND && (
        <li class="pad muted">and {value(rows.length - MOST_FOUND)} more: search more closely</li>
      )}
    </ul>
  );
}

const many = (): boolean => branches.peek().length > 1;

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
                class={line.branch.row?.hits ? "count" : "count below"}
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
  else go({ node: one.path, network: many() ? one.network : null });
}
