// Everything the page shows has an address: /run/<id>/step/<n>/node/<name>?tab=…

import { signal } from "@preact/signals";

export const TABS = ["findings", "hits", "graph", "tensor", "stacks", "curves", "data", "time", "output", "run"] as const;
export type Tab = (typeof TABS)[number];

/** What single views remember in the query. */
const EXTRAS = ["graph", "view", "at", "tensor", "slice", "against", "line", "part"] as const;

interface Route extends Record<(typeof EXTRAS)[number], string | null> {
  run: string | null;
  step: number | null; // null follows the newest step
  node: string | null;
  network: string | null;
  tab: Tab;
  rank: number | null;
}

const NO_EXTRAS = { graph: null, view: null, at: null, tensor: null, slice: null, against: null, line: null, part: null };
const NOWHERE: Route = { run: null, step: null, node: null, network: null, tab: "findings", rank: null, ...NO_EXTRAS };

function parse(path: string, search: string): Route {
  const parts = path.split("/").slice(1).map(decode);
  const query = new URLSearchParams(search);
  const route: Route = { ...NOWHERE };
  if (parts[0] !== "run" || !parts[1]) return route;
  route.run = parts[1];
  for (let i = 2; i + 1 < parts.length; i += 2) {
    const text = parts[i + 1]!;
    if (parts[i] === "step" && /^\d+$/.test(text)) route.step = Number(text);
    if (parts[i] === "node") route.node = text === "~" ? "" : text.replace(/^~(?=~)/, "");
  }
  route.network = query.get("network");
  const tab = query.get("tab");
  if ((TABS as readonly string[]).includes(tab ?? "")) route.tab = tab as Tab;
  const rank = query.get("rank");
  if (rank !== null && /^\d+$/.test(rank)) route.rank = Number(rank);
  for (const name of EXTRAS) route[name] = query.get(name);
  return route;
}

function address(route: Route): string {
  if (route.run === null) return "/";
  let path = `/run/${encodeURIComponent(route.run)}`;
  if (route.step !== null) path += `/step/${route.step}`;
  // An empty path segment would be lost: the root module is written as '~'.
  if (route.node !== null)
    path += `/node/${encodeURIComponent(route.node === "" ? "~" : route.node.startsWith("~") ? `~${route.node}` : route.node)}`;
  const query = new URLSearchParams();
  if (route.tab !== "findings") query.set("tab", route.tab);
  if (route.network !== null) query.set("network", route.network);
  if (route.rank !== null) query.set("rank", String(route.rank));
  for (const name of EXTRAS) if (route[name] !== null) query.set(name, route[name]);
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parse(location.pathname, location.search));

export function go(change: Partial<Route>, replace = false): void {
  const next = { ...route.peek(), ...change };
  const target = address(next);
  if (target === address(route.peek())) return;
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  route.value = next;
}

export const home = (): void => go(NOWHERE);

addEventListener("popstate", () => {
  route.value = parse(location.pathname, location.search);
});

/** Turns a plain click on a link into a change of address without loading the page again. */
export function follow(change: Partial<Route>): { href: string; onClick: (event: MouseEvent) => void } {
  return {
    href: address({ ...route.value, ...change }),
    onClick: (event) => {
      if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      go(change);
    },
  };
}
