// All ranks over all steps at a glance: who has hits, whose loss is bad, who is slow, who is behind.

import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { go } from "../../route";
import { columns, rank, step } from "../../state";
import { num } from "../../text";

const MOST_CELLS = 240; // steps or stretches of steps in a row
const HEIGHT = 12;
const SLOW = 1.5; // times what the ranks need for the same steps

interface Cell {
  first: number;
  hits: number;
  bad: boolean;
  seconds: number;
  count: number;
}

/** Rows of cells, one for each rank; a stretch that a rank has not recorded is null. */
const grid = computed(() => {
  const all = [...columns.value.values()].filter((one) => one.step.length > 0).sort((a, b) => a.rank - b.rank);
  if (all.length < 2) return null;
  const first = Math.min(...all.map((one) => one.step[0]!));
  const last = Math.max(...all.map((one) => one.step[one.step.length - 1]!));
  const wide = Math.max(1, Math.ceil((last - first + 1) / MOST_CELLS));
  const cells = Math.ceil((last - first + 1) / wide);
  const rows = all.map((one) => {
    const row: (Cell | null)[] = new Array<Cell | null>(cells).fill(null);
    one.step.forEach((number, i) => {
      const at = Math.floor((number - first) / wide);
      const cell = (row[at] ??= { first: number, hits: 0, bad: false, seconds: 0, count: 0 });
      const loss = num(one.loss[i]);
      cell.hits += one.hits[i]!;
      cell.bad ||= loss !== null && !Number.isFinite(loss);
      cell.seconds += num(one.seconds[i]) ?? 0;
      cell.count += 1;
    });
    return { rank: one.rank, row };
  });
  const slowest = Array.from({ length: cells }, (_, at) => {
    const times = rows.map(({ row }) => row[at]).filter((cell): cell is Cell => cell !== null && cell !== undefined);
    return times.reduce((sum, cell) => sum + cell.seconds / cell.count, 0) / Math.max(1, times.length);
  });
  return { first, wide, cells, rows, slowest };
});

function kind(cell: Cell | null, usual: number): string {
  if (cell === null) return "none";
  if (cell.bad) return "bad";
  if (cell.hits > 0) return "hit";
  return usual > 0 && cell.seconds / cell.count > SLOW * usual ? "slow" : "well";
}

const WORDS: Record<string, string> = {
  none: "not recorded",
  bad: "loss not finite",
  hit: "hits",
  slow: "slower than the other ranks",
  well: "well",
};

export function RankSteps(): JSX.Element | null {
  const now = grid.value;
  if (now === null) return null;
  const here = Math.floor((step.value - now.first) / now.wide);
  return (
    <div class="rank-steps" role="group" aria-label="Ranks by step">
      {now.rows.map((one) => (
        <div key={one.rank} class={one.rank === rank.value ? "on" : ""}>
          <span class="number">{one.rank}</span>
          <svg
            viewBox={`0 0 ${now.cells} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`Rank ${one.rank}: ${said(one.row, now.slowest)}`}
            onClick={(event) => {
              const box = event.currentTarget.getBoundingClientRect();
              const at = Math.min(now.cells - 1, Math.floor(((event.clientX - box.left) / box.width) * now.cells));
              const cell = one.row[at];
              if (cell) go({ rank: one.rank, step: cell.first });
            }}
          >
            {one.row.map((cell, at) => (
              <rect key={at} class={kind(cell, now.slowest[at]!)} x={at} y="0" width="1" height={HEIGHT}>
                <title>{`rank ${one.rank}, step ${now.first + at * now.wide}${
                  now.wide > 1 ? ` to ${now.first + (at + 1) * now.wide - 1}` : ""
                }: ${WORDS[kind(cell, now.slowest[at]!)]}${cell && cell.hits > 0 ? ` (${cell.hits})` : ""}`}</title>
              </rect>
            ))}
            {here >= 0 && here < now.cells && <rect class="here" x={here + 0.4} y="0" width="0.2" height={HEIGHT} />}
          </svg>
        </div>
      ))}
      <p class="muted key">
        {["well", "slow", "hit", "bad", "none"].map((one) => (
          <span key={one}>
            <i class={one} /> {WORDS[one]}
          </span>
        ))}
      </p>
    </div>
  );
}

function said(row: readonly (Cell | null)[], usual: readonly number[]): string {
  const count = new Map<string, number>();
  row.forEach((cell, at) => {
    const one = kind(cell, usual[at]!);
    count.set(one, (count.get(one) ?? 0) + 1);
  });
  return [...count].map(([one, n]) => `${n} ${WORDS[one]}`).join(", ");
}
