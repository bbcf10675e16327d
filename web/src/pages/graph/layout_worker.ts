// Lays out one group at a time, off the page's own thread.

import dagre from "@dagrejs/dagre";

export interface Ask {
  id: number;
  sizes: [width: number, height: number][];
  links: [source: number, target: number][];
  across: boolean; // left to right instead of top to bottom
}

export interface Laid {
  id: number;
  width: number;
  height: number;
  places: [x: number, y: number][]; // of the upper left corner
  lines: [x: number, y: number][][];
}

const MARGIN = 12;

/** Boxes that nothing connects would all land in one row: they are set in rows of about the page's shape. */
function loose(ask: Ask, alone: number[], top: number, least: number): { places: Map<number, [number, number]>; width: number; height: number } {
  const area = alone.reduce((sum, one) => sum + (ask.sizes[one]![0] + 16) * (ask.sizes[one]![1] + 16), 0);
  const widest = Math.max(least, Math.sqrt(area) * 1.6, ...alone.map((one) => ask.sizes[one]![0] + 2 * MARGIN));
  const places = new Map<number, [number, number]>();
  let x = MARGIN;
  let y = top;
  let tallest = 0;
  let width = 0;
  for (const one of alone) {
    const [w, h] = ask.sizes[one]!;
    if (x > MARGIN && x + w > widest) {
      x = MARGIN;
      y += tallest + 16;
      tallest = 0;
    }
    places.set(one, [x, y]);
    x += w + 16;
    tallest = Math.max(tallest, h);
    width = Math.max(width, x - 16 + MARGIN);
  }
  return { places, width, height: y + tallest + MARGIN };
}

function lay(ask: Ask): Laid {
  const linked = new Set(ask.links.flat());
  const alone = ask.sizes.map((_, index) => index).filter((index) => !linked.has(index));
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({ rankdir: ask.across ? "LR" : "TB", nodesep: 18, ranksep: 34, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const index of linked) {
    const [width, height] = ask.sizes[index]!;
    graph.setNode(String(index), { width, height });
  }
  for (const [source, target] of ask.links) graph.setEdge(String(source), String(target));
  let width = 0;
  let height = 0;
  if (linked.size > 0) {
    dagre.layout(graph);
    const made = graph.graph() as { width?: number; height?: number };
    width = made.width ?? 0;
    height = made.height ?? 0;
  }
  const rest = alone.length > 0 ? loose(ask, alone, height > 0 ? height + 8 : MARGIN, width) : null;
  const places = ask.sizes.map(([w, h], index): [number, number] => {
    const free = rest?.places.get(index);
    if (free) return free;
    const node = graph.node(String(index)) as { x: number; y: number };
    return [node.x - w / 2, node.y - h / 2];
  });
  const lines = ask.links.map(([source, target]) => {
    const edge = graph.edge(String(source), String(target)) as { points?: { x: number; y: number }[] } | undefined;
    return (edge?.points ?? []).map(({ x, y }): [number, number] => [x, y]);
  });
  return { id: ask.id, width: Math.max(width, rest?.width ?? 0), height: rest?.height ?? height, places, lines };
}

onmessage = (event: MessageEvent<Ask>) => {
  postMessage(lay(event.data));
};
