// The values themselves as a table, a page at a time, and what they are compared with.

import type { JSX } from "preact";
import { exact, num, shown, value } from "../../text";
import { go, route } from "../../route";
import type { TensorPage, TensorValues } from "../../types";
import { corner, runs, tolerance } from "./state";

export function Cells({ of }: { of: TensorValues }): JSX.Element {
  const width = of.cells[0]?.length ?? 0;
  const turn = (row: number, column: number): void => {
    corner.value = { row: Math.max(0, row), column: Math.max(0, column) };
  };
  if (of.cells.length === 0 || width === 0) return <p class="muted">It is empty.</p>;
  return (
    <div class="cells">
      <div class="wide-table">
        <table class="numbers" aria-label="Values">
          <thead>
            <tr>
              <th />
              {of.cells[0]!.map((_, index) => (
                <th key={index}>{of.column + index}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.cells.map((line, index) => (
              <tr key={index}>
                <th>{of.row + index}</th>
                {line.map((one, place) => {
                  const number = num(one);
                  const bad = number === null || !Number.isFinite(number);
                  return (
                    <td key={place} class={bad ? "bad" : ""} title={exact(one)}>
                      {value(one, 5)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(of.rows > of.cells.length || of.columns > width) && (
        <p class="cell-pages">
          <button disabled={of.row === 0} onClick={() => turn(of.row - of.cells.length, of.column)}>
            ▴ Rows
          </button>
          <button
            disabled={of.row + of.cells.length >= of.rows}
            onClick={() => turn(of.row + of.cells.length, of.column)}
          >
            ▾ Rows
          </button>
          <button disabled={of.column === 0} onClick={() => turn(of.row, of.column - width)}>
            ◂ Columns
          </button>
          <button disabled={of.column + width >= of.columns} onClick={() => turn(of.row, of.column + width)}>
            ▸ Columns
          </button>
          <span class="muted number">
            {value(of.rows)} rows, {value(of.columns)} columns
          </span>
        </p>
      )}
    </div>
  );
}

export function Against({ of, at }: { of: TensorPage; at: number }): JSX.Element {
  const now = route.value.against ?? "";
  const before = of.kept.filter((one) => one < at).at(-1);
  return (
    <>
      <select
        aria-label="Compare with"
        value={now}
        onChange={(event) => go({ against: event.currentTarget.value || null })}
      >
        <option value="">compare with…</option>
        {before !== undefined && <option value={`step:${before}`}>the kept step before ({before})</option>}
        {of.kept
          .filter((one) => one !== at && one !== before)
          .map((one) => (
            <option key={one} value={`step:${one}`}>
              step {one}
            </option>
          ))}
        {of.ranks
          .filter((one) => one !== of.rank)
          .map((one) => (
            <option key={`rank ${one}`} value={`rank:${one}`}>
              rank {one}, same step
            </option>
          ))}
        {runs.value
          .filter((one) => one.id !== route.value.run && !one.error)
          .slice(0, 50)
          .map((one) => (
            <option key={`run ${one.id}`} value={`run:${one.id}`}>
              run {shown(one.id, 60)}, same step
            </option>
          ))}
        {now !== "" && !listed(now, of, at) && <option value={now}>{shown(now, 60)}</option>}
      </select>
      {now !== "" &&
        (["rtol", "atol"] as const).map((name) => (
          <label key={name} class="check small" title="|a − b| > atol + rtol · |b| counts as a difference">
            {name}
            <input
              class="tolerance"
              aria-label={name}
              value={tolerance.value[name]}
              onChange={(event) => (tolerance.value = { ...tolerance.value, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
    </>
  );
}

const listed = (now: string, of: TensorPage, at: number): boolean =>
  of.kept.some((one) => one !== at && now === `step:${one}`) ||
  of.ranks.some((one) => now === `rank:${one}`) ||
  runs.value.some((one) => now === `run:${one.id}`);
