// The drawing itself: boxes in boxes and arrows, as SVG.

import type { JSX } from "preact";
import { route } from "../../route";
import { num, shown, value } from "../../text";
import type { GraphBox } from "../../types";
import { HEAD, isOpen, type Placed, type PlacedBox, select, statistic, toggle } from "./state";

export const KINDS: [kind: GraphBox["kind"], name: string][] = [
  ["module", "module"],
  ["range", "several, folded"],
  ["operator", "operator"],
  ["parameter", "parameter"],
  ["buffer", "buffer"],
  ["input", "input"],
  ["state", "optimizer state"],
  ["region", "compiled region"],
];

const cut = (text: string, most: number): string => {
  const safe = shown(text, 400);
  return safe.length > most ? `${safe.slice(0, most - 1)}…` : safe;
};

/** In a neighbourhood a module is named by its path, of which the end tells most. */
function placeName(box: GraphBox): string {
  const safe = shown(box.key.startsWith("n") ? box.label : box.path || box.label, 400);
  return safe.length > 30 ? `…${safe.slice(-29)}` : safe;
}

function line(points: readonly [number, number][]): string {
  if (points.length === 0) return "";
  let path = `M${points[0]![0].toFixed(1)} ${points[0]![1].toFixed(1)}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [x, y] = points[i]!;
    const [nx, ny] = points[i + 1]!;
    const last = i === points.length - 2;
    path += `Q${x.toFixed(1)} ${y.toFixed(1)} ${(last ? nx : (x + nx) / 2).toFixed(1)} ${(last ? ny : (y + ny) / 2).toFixed(1)}`;
  }
  if (points.length === 2) path += `L${points[1]![0].toFixed(1)} ${points[1]![1].toFixed(1)}`;
  return path;
}

const isSelected = (box: GraphBox): boolean => {
  const { at, node, network } = route.value;
  if (at !== null) return box.key === at;
  return (
    node !== null &&
    (box.kind === "module" || box.kind === "network") &&
    box.path === node &&
    (network === null || network === box.network)
  );
};

/** The range of values in the drawing, for the colours of the statistic. */
function extent(one: Placed, found: number[] = []): number[] {
  for (const { box, inside } of one.boxes) {
    const here = num(box.value);
    if (here !== null && Number.isFinite(here)) found.push(Math.abs(here));
    if (inside) extent(inside, found);
  }
  return found;
}

export function Drawing({ of, flat }: { of: Placed; flat: boolean }): JSX.Element {
  const most = statistic.value === "" ? 0 : Math.max(0, ...extent(of));
  return <Level of={of} flat={flat} most={most} />;
}

function Level({ of, flat, most }: { of: Placed; flat: boolean; most: number }): JSX.Element {
  return (
    <>
      {of.links.map(({ link, points, source, target }) => (
        <g
          key={`${source.key} ${target.key}`}
          class={(flat ? source.hops === 0 || target.hops === 0 : isSelected(source) || isSelected(target)) ? "flow strong" : "flow"}
        >
          <path d={line(points)} marker-end="url(#arrow)">
            <title>
              {`${shown(source.label, 80)} → ${shown(target.label, 80)}${link.label ? `: ${shown(link.label, 80)}` : ""}${link.count > 1 ? `, ${link.count} tensors` : ""}`}
            </title>
          </path>
        </g>
      ))}
      {of.boxes.map((one) => (
        <Box key={one.box.key} of={one} flat={flat} most={most} />
      ))}
    </>
  );
}

function Box({ of, flat, most }: { of: PlacedBox; flat: boolean; most: number }): JSX.Element {
  const { box, x, y, width, height, inside } = of;
  const group = !box.key.startsWith("n");
  const on = flat ? box.hops === 0 : isSelected(box);
  const here = num(box.value);
  const bad = here !== null && !Number.isFinite(here);
  const shade = here !== null && !bad && most > 0 ? 0.05 + 0.3 * (Math.abs(here) / most) : 0;
  const label = box.repeated ? `${cut(box.label, 30)} ×${box.members}` : flat ? placeName(box) : cut(box.label, 30);
  const second = group
    ? `${cut(box.type || (box.kind === "network" ? "network" : ""), 22)}${box.operators > 1 ? ` · ${value(box.operators)} op` : ""}`.replace(/^ · /, "")
    : cut(box.outputs[0] ?? "", 26);
  const round = box.kind === "parameter" || box.kind === "buffer" || box.kind === "state" ? 14 : group ? 5 : 10;
  const left = group && !flat ? 24 : 12;
  return (
    <g
      class={`box ${box.kind}${on ? " on" : ""}${box.hits > 0 ? " hit" : ""}${inside ? " open" : ""}${shade > 0 ? " shaded" : ""}`}
      transform={`translate(${x} ${y})`}
      data-key={box.key}
    >
      {box.kind === "range" && !inside && (
        <rect class="under" x="4" y="4" width={width} height={height} rx={round} />
      )}
      <g
        role="button"
        tabIndex={0}
        aria-pressed={on}
        aria-label={`${box.kind} ${shown(box.path && group ? box.path : box.label, 200)}${box.hits > 0 ? `, ${box.hits} hits` : ""}`}
        onClick={() => select(box)}
        onDblClick={() => group && !flat && toggle(box.key, !isOpen(box.key))}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (event.key === "Enter") select(box);
          else if (group && !flat && (event.key === "ArrowRight" || event.key === "ArrowLeft"))
            toggle(box.key, event.key === "ArrowRight");
          else return;
          event.preventDefault();
        }}
      >
        <title>{`${shown(box.path ? `${box.path} ` : "", 500)}${shown(box.label, 500)}${box.outputs.length ? ` → ${shown(box.outputs.join(", "), 300)}` : ""}`}</title>
        <rect class="face" width={width} height={height} rx={round} />
        {shade > 0 && <rect class="shade" width={width} height={inside ? HEAD : height} rx={round} fill-opacity={shade} />}
        {bad && <rect class="shade bad" width={width} height={inside ? HEAD : height} rx={round} />}
        <text class="label" x={left} y={second && !inside ? 17 : inside ? 20 : height / 2 + 4}>
          {label}
          {inside && box.type && <tspan class="second">{`  ${cut(box.type, 30)}`}</tspan>}
        </text>
        {second && !inside && (
          <text class="second" x={left} y={31}>
            {second}
          </text>
        )}
        {here !== null && !inside && (
          <text class={bad ? "second bad" : "second"} x={left} y={height - 6}>
            {value(box.value, 4)}
          </text>
        )}
        {flat
          ? box.codes.map((code, index) => (
              <g key={code} transform={`translate(${width - 28 - index * 26} 5)`}>
                <rect class="badge" width="24" height="15" rx="3" />
                <text class="badge-text" x="12" y="11.5">
                  {cut(code, 4)}
                </text>
              </g>
            ))
          : box.hits > 0 && (
              <g transform={`translate(${width - 30} 6)`}>
                <rect class="badge" width="24" height="15" rx="7" />
                <text class="badge-text" x="12" y="11.5">
                  {box.hits > 99 ? "99+" : box.hits}
                </text>
              </g>
            )}
      </g>
      {group && !flat && (
        <g
          class="opener"
          role="button"
          tabIndex={-1}
          aria-expanded={inside !== null}
          aria-label={`${inside ? "Close" : "Open"} ${shown(box.path || box.label, 200)}`}
          onClick={() => toggle(box.key, !isOpen(box.key))}
        >
          <rect class="catch" x="2" y="2" width="22" height="26" />
          <path d={inside ? "M8 12l4.5 4.5L17 12" : "M10 8.5l4.5 4.5-4.5 4.5"} />
        </g>
      )}
      {inside && (
        <g transform={`translate(${(width - inside.width) / 2} ${HEAD - 4})`}>
          <Level of={inside} flat={flat} most={most} />
        </g>
      )}
    </g>
  );
}
