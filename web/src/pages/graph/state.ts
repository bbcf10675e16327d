// What the graph shows: which part of it, what is open, and where everything stands.

import { batch, computed, effect, signal } from "@preact/signals";
import { at, get, Refused } from "../../net";
import { go, route } from "../../route";
import { calm, rank, sequence, say, step, summary } from "../../state";
import type { GraphBox, GraphGroup, GraphLink, GraphRow, GraphWhere } from "../../types";
import { lay } from "./layout";

export const VIEWS = ["forward", "backward", "update"] as const;
type ViewName = (typeof VIEWS)[number];
const MOST_DRAWN = 700;

export interface PlacedBox {
  box: GraphBox;
  x: number;
  y: number;
  width: number;
  height: number;
  inside: Placed | null;
}

export interface Placed {
  width: number;
  height: number;
  boxes: PlacedBox[];
  links: { link: GraphLink; points: [number, number][]; source: GraphBox; target: GraphBox }[];
}

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const HEAD = 30; // of an open box
const graphs = signal<readonly GraphRow[] | null>(null);
export const refused = signal("");
export const placed = signal<Placed | null>(null);
export const drawnAs = signal<{ near: boolean; name: string }>({ near: false, name: "" }); // what `placed` is a drawing of
export const cut = signal(false);
const drawn = signal(0);
const busy = signal(false);
export const statistic = signal("");
export const hops = signal(2);
const opened = signal<ReadonlySet<string>>(new Set());
export const focus = signal<string | null>(null); // key of the box to bring into sight in the whole graph
/** null: the neighbourhood of what is selected, or the whole when nothing is. */
const chosen = signal<"near" | "whole" | null>(null);

export const rows = computed(() => graphs.value ?? []);
export const loaded = computed(() => graphs.value !== null);
export const current = computed<GraphRow | null>(
  () =>
    rows.value.find((row) => row.name === route.value.graph && row.rank === rank.value) ??
    rows.value.find((row) => row.rank === rank.value) ??
    rows.value[0] ??
    null,
);
export const view = computed<ViewName>(() =>
  (VIEWS as readonly string[]).includes(route.value.view ?? "") ? (route.value.view as ViewName) : "forward",
);
export const selected = computed(() => route.value.at !== null || route.value.node !== null);
export const mode = computed<"near" | "whole">(() => (chosen.value === "whole" || !selected.value ? "whole" : "near"));

export function show(next: "near" | "whole"): void {
  chosen.value = next;
  if (next === "whole" && selected.peek()) void openTo();
}

export const isOpen = (key: string): boolean => opened.value.has(key);

export function toggle(key: string, open: boolean): void {
  if (open && drawn.peek() > MOST_DRAWN) {
    say(`More than ${MOST_DRAWN} boxes are open: close some first.`, true);
    return;
  }
  const next = new Set(opened.peek());
  if (open) next.add(key);
  else next.delete(key);
  opened.value = next;
}

export const closeAll = (): void => {
  opened.value = new Set();
};

/** Selects a box: its module in the tree and inspector, and, of an operator, itself. */
export function select(box: GraphBox): void {
  const single = box.key.startsWith("n");
  if (box.kind === "range") {
    toggle(box.key, !isOpen(box.key));
    return;
  }
  if (mode.peek() === "whole") chosen.value = "whole"; // whoever walks through the whole graph stays in it
  const many = (summary.peek()?.networks.length ?? 0) > 1;
  go({
    tab: "graph",
    view: box.view === "forward" ? null : box.view,
    at: single ? box.key : null,
    node: box.network === "" ? null : box.path,
    network: box.network !== "" && many ? box.network : null,
  });
}

export const base = computed(() => {
  const row = current.value;
  return row === null ? null : { graph: row.name, rank: row.rank };
});

const groups = new Map<string, Promise<GraphGroup>>();

function ask(noun: string, query: Record<string, string | number | null>): Promise<GraphGroup> {
  const path = at(route.peek().run!, `graph/${noun}`, query);
  let found = groups.get(path);
  if (!found) {
    found = get<GraphGroup>(path);
    groups.set(path, found);
    found.catch(() => groups.delete(path));
    if (groups.size > 300) groups.delete(groups.keys().next().value!);
  }
  return found;
}

/** Opens everything around what is selected, so that it is seen in the whole graph. */
async function openTo(): Promise<void> {
  const run = route.peek().run;
  const here = base.peek();
  if (run === null || here === null) return;
  const { at: key, node, network } = route.peek();
  try {
    const query = at(run, "graph/where", { ...here, view: view.peek(), key, network });
    const found = await get<GraphWhere>(`${query}&node=${encodeURIComponent(node ?? "")}`);
    opened.value = new Set([...opened.peek(), ...found.open]);
    focus.value = found.key;
  } catch {
    // it has no operators in this part: the graph stays as it is
  }
}

const LETTER = 7.3;
const short = (text: string, most: number): number => Math.min(most, text.length);

function size(box: GraphBox, whole: boolean): [number, number] {
  const type = box.kind === "network" && box.type === "" ? "network" : box.type;
  const second = Math.max(short(type, 22) + (box.operators > 1 ? 9 : 0), short(box.outputs[0] ?? "", 26));
  const name = whole || box.key.startsWith("n") || box.kind === "range" ? box.label : box.path || box.label;
  const letters = Math.max(short(name, 30) + (box.repeated ? 5 : 0), second * 0.86);
  const signs = (box.key.startsWith("n") || !whole ? 0 : 14) + (whole ? (box.hits > 0 ? 28 : 0) : box.codes.length * 27);
  const small = box.kind === "parameter" || box.kind === "buffer" || box.kind === "input" || box.kind === "state";
  const value = statistic.value !== "" && box.value !== null ? 14 : 0;
  return [Math.round(letters * LETTER + signs + 24), (second > 0 || small ? 40 : 28) + value];
}

type Query = Record<string, string | number | null>;

async function place(group: GraphGroup, whole: boolean, query: Query, across = !whole): Promise<Placed> {
  const inside = await Promise.all(
    group.boxes.map(async (box) =>
      whole && !box.key.startsWith("n") && opened.peek().has(box.key)
        ? place(await ask("group", { ...query, key: box.key }), whole, query)
        : null,
    ),
  );
  const sizes = group.boxes.map((box, index): [number, number] => {
    const within = inside[index];
    const [width, height] = size(box, whole);
    if (!within) return [width, height];
    const type = box.type === "" ? 0 : (short(box.type, 30) + 2) * LETTER * 0.86; // an open box has it beside its name
    return [Math.max(within.width, width + 20, short(box.label, 30) * LETTER + type + 66), within.height + HEAD];
  });
  const laid = await lay({ sizes, links: group.links.map((link) => [link.source, link.target]), across });
  return {
    width: laid.width,
    height: laid.height,
    boxes: group.boxes.map((box, index) => ({
      box,
      x: laid.places[index]![0],
      y: laid.places[index]![1],
      width: sizes[index]![0],
      height: sizes[index]![1],
      inside: inside[index] ?? null,
    })),
    links: group.links.map((link, index) => ({
      link,
      points: laid.lines[index]!,
      source: group.boxes[link.source]!,
      target: group.boxes[link.target]!,
    })),
  };
}

/** Where a box stands in a drawing; null when it is not there. */
export function whereIs(one: Placed, key: string | null, x = 0, y = 0): Rect | null {
  for (const box of one.boxes) {
    if (box.box.key === key) return { x: x + box.x, y: y + box.y, width: box.width, height: box.height };
    if (!box.inside) continue;
    const found = whereIs(box.inside, key, x + box.x + (box.width - box.inside.width) / 2, y + box.y + HEAD - 4);
    if (found) return found;
  }
  return null;
}

/** Kinds of boxes in a drawing. */
export function kindsIn(one: Placed, found = new Set<string>()): Set<string> {
  for (const { box, inside } of one.boxes) {
    found.add(box.kind === "network" ? "module" : box.kind);
    if (box.hits > 0 || box.codes.length > 0) found.add("hits");
    if (inside) kindsIn(inside, found);
  }
  return found;
}

const total = (one: Placed): number =>
  one.boxes.reduce((sum, box) => sum + 1 + (box.inside === null ? 0 : total(box.inside)), 0);

/** A group with a single box tells nothing: what is inside it is shown at once. */
async function openSingle(group: GraphGroup, query: Query): Promise<void> {
  let now = group;
  const next = new Set(opened.peek());
  for (let depth = 0; depth < 6; depth++) {
    const inner = now.boxes.filter((box) => !box.key.startsWith("n"));
    if (inner.length !== 1 || next.has(inner[0]!.key)) break;
    next.add(inner[0]!.key);
    now = await ask("group", { ...query, key: inner[0]!.key });
  }
  opened.value = new Set([...opened.peek(), ...next]);
}

/** What stands near a module, laid out: for the tensor view. */
export async function nearby(query: Query): Promise<{ placed: Placed; cut: boolean }> {
  const group = await ask("near", query);
  return { placed: await place(group, false, query, false), cut: group.cut };
}

let version = 0;
let begun = "";

async function draw(): Promise<void> {
  const mine = ++version;
  const here = base.peek();
  if (here === null || route.peek().run === null) return;
  const shared = { ...here, view: view.peek(), step: step.peek() < 0 ? null : step.peek(), statistic: statistic.peek() };
  busy.value = true;
  try {
    let made: Placed;
    if (mode.peek() === "near") {
      const { at: key, node, network } = route.peek();
      const query = { ...shared, key, network: key === null ? network : null, up: hops.peek(), down: hops.peek() };
      const asked = key === null ? { ...query, node: node === "" ? null : node } : query;
      const group = await ask("near", asked);
      made = await place(group, false, shared);
      if (mine === version) cut.value = group.cut;
    } else {
      const group = await ask("group", { ...shared, key: "b0" });
      const first = `${route.peek().run} ${here.graph} ${here.rank} ${view.peek()}`;
      if (begun !== first) {
        begun = first;
        await openSingle(group, shared);
        if (mine !== version) return; // opening has asked for it anew
      }
      made = await place(group, true, shared);
      if (mine === version) cut.value = false;
    }
    if (mine !== version) return;
    const near = mode.peek() === "near";
    const { at: key, node } = route.peek();
    batch(() => {
      placed.value = made;
      drawnAs.value = { near, name: `${begun} ${here.graph} ${shared.view} ${near ? `${key} ${node} ${hops.peek()}` : ""}` };
      drawn.value = total(made);
      refused.value = "";
    });
  } catch (error) {
    if (mine !== version) return;
    placed.value = null;
    refused.value = error instanceof Refused ? error.message : String(error);
  } finally {
    if (mine === version) busy.value = false;
  }
}

let shownRun: string | null = null;
let asking = false;
let askedFor = "";
const answers = signal(0);
effect(() => {
  const run = route.value.run;
  const changes = summary.value;
  void answers.value;
  if (run !== shownRun) {
    shownRun = run;
    graphs.value = null;
    placed.value = null;
    chosen.value = null;
    begun = "";
    groups.clear();
  }
  const wanted = route.value.tab === "graph" || route.value.tab === "stacks" || (route.value.tab === "tensor" && calm.value);
  const row = current.value;
  // asked again for another graph, and when the run has more to tell: graphs may come late
  const name = `${run} ${row?.rank} ${row?.name} ${row === null ? sequence.value : changes?.sequence}`;
  if (run === null || changes === null || !wanted || asking || name === askedFor) return;
  asking = true;
  askedFor = name;
  get<GraphRow[]>(at(run, "graphs", { graph: row?.name ?? route.peek().graph, rank: row?.rank ?? rank.peek() }))
    .then((got) => {
      if (route.peek().run === run && JSON.stringify(got) !== JSON.stringify(graphs.peek())) graphs.value = got;
    })
    .catch((error: unknown) => {
      refused.value = error instanceof Refused ? error.message : String(error);
      graphs.value = [];
    })
    .finally(() => {
      asking = false;
      answers.value += 1;
    });
});

let part = "";
effect(() => {
  // keys mean other boxes in another part
  const now = `${route.value.run} ${base.value?.graph} ${base.value?.rank} ${view.value}`;
  if (now === part) return;
  part = now;
  opened.value = new Set();
  focus.value = null;
});

effect(() => {
  void [route.value.at, route.value.node, view.value];
  if (route.value.tab === "graph" && base.value !== null && chosen.peek() === "whole" && selected.peek()) void openTo();
});

effect(() => {
  const ready = base.value !== null && route.value.tab === "graph";
  void [view.value, mode.value, opened.value, step.value, statistic.value, hops.value];
  void [route.value.at, route.value.node, route.value.network];
  if (ready) void draw();
});
