// Flame graph by module, operators, lines of code, ranks.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { duration, nodeName, num, shown, value } from "../../text";
import type { ModuleTime, RankTime } from "../../types";
import { PARTS } from "./load";
import { chooseRank, percent } from "./time";

const MOST_ROWS = 200;

export function Flame({ of }: { of: RankTime }): JSX.Element | null {
  const modules = of.profile.modules ?? [];
  const [root, setRoot] = useState("");
  if (modules.length === 0) return null;
  const whole = time(modules.find((one) => one.path === root));
  const levels = rows(modules, root);
  return (
    <section aria-label="Modules">
      <h2>
        Time of operators by module <span class="muted">forward and backward, {duration(whole)} in the located steps</span>
      </h2>
      {root !== "" && (
        <div class="tools">
          <button onClick={() => setRoot("")}>Whole network</button> <code>{shown(root)}</code>
        </div>
      )}
      <div class="flame">
        {levels.map((cells, depth) => (
          <div class="flame-row" key={depth}>
            {cells.map((cell) =>
              cell.module === null ? (
                <span key={cell.key} class="flame-cell empty-cell" style={{ flex: `${cell.size * 1e9} 1 0` }} />
              ) : (
                <button
                  key={cell.key}
                  class="flame-cell"
                  style={{ flex: `${cell.size * 1e9} 1 0` }}
                  title={`${nodeName(cell.module.path)} ${shown(cell.module.type ?? "")}: forward ${duration(num(cell.module.forward) ?? 0)}, backward ${duration(num(cell.module.backward) ?? 0)}, ${percent(cell.size / (whole || 1))}`}
                  onClick={() => setRoot(cell.module!.path)}
                >
                  {cell.module.path === "" ? "whole network" : shown(cell.module.path.split(".").pop()!)}
                </button>
              ),
            )}
          </div>
        ))}
      </div>
    </section>
  );
}

interface Cell {
  key: string;
  size: number;
  module: ModuleTime | null;
}

const time = (one: ModuleTime | undefined): number => (num(one?.forward) ?? 0) + (num(one?.backward) ?? 0);

/** Each level of the tree as cells, with empty ones where a module has nothing inside. */
function rows(modules: readonly ModuleTime[], root: string): Cell[][] {
  const children = new Map<string, ModuleTime[]>();
  for (const one of modules) {
    if (one.path === "") continue;
    const parent = one.path.includes(".") ? one.path.slice(0, one.path.lastIndexOf(".")) : "";
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  const first = modules.find((one) => one.path === root);
  if (!first) return [];
  let level: Cell[] = [{ key: root, size: time(first), module: first }];
  const levels: Cell[][] = [];
  while (level.some((cell) => cell.module !== null) && levels.length < 16) {
    levels.push(level);
    const next: Cell[] = [];
    for (const cell of level) {
      let left = cell.size;
      for (const child of cell.module === null ? [] : (children.get(cell.module.path) ?? [])) {
        const size = time(child);
        if (size <= 0) continue;
        left -= size;
        next.push({ key: child.path, size, module: child });
      }
      if (left > 0) next.push({ key: `${cell.key}/rest`, size: left, module: null });
    }
    level = next;
  }
  return levels;
}

export function Operators({ of }: { of: RankTime }): JSX.Element | null {
  const [filter, setFilter] = useState("");
  const [by, setBy] = useState<"seconds" | "calls" | "name">("seconds");
  const all = of.profile.operators ?? [];
  if (all.length === 0) return null;
  const steps = Math.max(1, num(of.profile.facts?.["traced_steps"] as never) ?? 1);
  const whole = num(of.profile.facts?.["operator_seconds"] as never) || 1;
  const found = all
    .filter((one) => `${one.name} ${one.shapes ?? ""} ${one.dtypes ?? ""}`.toLowerCase().includes(filter.toLowerCase()))
    .sort((a, b) => (by === "name" ? a.name.localeCompare(b.name) : (num(b[by]) ?? 0) - (num(a[by]) ?? 0)))
    .slice(0, MOST_ROWS);
  const head = (what: typeof by, text: string): JSX.Element => (
    <button class="quiet" aria-pressed={by === what} onClick={() => setBy(what)}>
      {text}
      {by === what ? " ▾" : ""}
    </button>
  );
  return (
    <section aria-label="Operators">
      <h2>Operators by shape and dtype, a traced step</h2>
      <div class="tools">
        <input type="search" style={{ maxWidth: "260px" }} placeholder="filter by name, shape or dtype" aria-label="Filter operators" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </div>
      <div class="scroll">
        <table class="rows">
          <thead>
            <tr>
              <th>{head("name", "operator")}</th>
              <th>shapes</th>
              <th>dtypes</th>
              <th class="right">{head("calls", "calls")}</th>
              <th class="right">{head("seconds", "time")}</th>
              <th class="right">share</th>
              <th>GFLOP/s</th>
            </tr>
          </thead>
          <tbody>
            {found.map((one) => (
              <tr key={`${one.name}|${one.shapes}|${one.dtypes}`}>
                <td class="name">{shown(one.name)}</td>
                <td class="name">{shown(one.shapes ?? "")}</td>
                <td class="muted">{shown(one.dtypes ?? "")}</td>
                <td class="right number">{value((one.calls ?? 0) / steps, 3)}</td>
                <td class="right number">{duration((num(one.seconds) ?? 0) / steps)}</td>
                <td class="right number">{percent((num(one.seconds) ?? 0) / whole)}</td>
                <td class="number">{one.flops && num(one.total) ? value(one.flops / num(one.total)! / 1e9, 3) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Lines({ of }: { of: RankTime }): JSX.Element | null {
  const lines = of.profile.lines ?? [];
  if (lines.length === 0) return null;
  return (
    <section aria-label="Lines">
      <h2>Lines of your code by time</h2>
      <div class="scroll">
        <table class="rows">
          <tbody>
            {lines.slice(0, 40).map((one) => (
              <tr key={`${one.source.file}:${one.source.line}:${one.part}`}>
                <td style={{ width: "120px" }}>
                  <span class={`bar part-${one.part ?? "rest"}`} style={{ width: `${100 * num(one.share)!}%` }} />
                  <span class="small">{percent(num(one.share)!)} {one.part ?? "rest"}</span>
                </td>
                <td class="name muted">{shown(one.source.file)}:{one.source.line}</td>
                <td class="name">{shown(one.source.code ?? "", 160)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Ranks({ of }: { of: readonly RankTime[] }): JSX.Element {
  const most = Math.max(1e-9, ...of.map((one) => num(one.seconds)!));
  return (
    <section aria-label="Ranks">
      <h2>Ranks</h2>
      <table class="rows">
        <tbody>
          {of.map((one) => (
            <tr key={one.rank}>
              <td style={{ width: "90px" }}>
                <button class="link" onClick={() => chooseRank(one.rank)}>rank {one.rank}</button>
              </td>
              <td>
                <div class="split" style={{ width: `${(100 * num(one.seconds)!) / most}%`, height: "14px" }}>
                  {PARTS.map((part) => (
                    <span key={part} class={`part-${part}`} title={`${part} ${duration(num(one.split[part])!)}`} style={{ width: `${(100 * num(one.split[part])!) / (num(one.seconds) || 1)}%` }} />
                  ))}
                </div>
              </td>
              <td class="right number" style={{ width: "90px" }}>{duration(num(one.seconds)!)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
