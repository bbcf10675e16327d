// The heat map: a canvas of one pixel a cell, stretched; the value under the pointer is said below.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { current } from "../../parts/theme";
import { value } from "../../text";
import { extent, type Heat, paint } from "./heat_data";

export function HeatMap({ of }: { of: Heat }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [under, setUnder] = useState<[row: number, column: number] | null>(null);
  const colour = current();
  useEffect(() => {
    const element = canvas.current!;
    element.width = Math.max(1, of.width);
    element.height = Math.max(1, of.height);
    element.getContext("2d")!.putImageData(paint(of, colour), 0, 0);
    element.dataset.painted = String(of.rows * of.columns);
  }, [of, colour]);
  if (of.rows === 0 || of.columns === 0) return <p class="muted">It is empty.</p>;
  const [low, high] = extent(of.mean);
  const cell = Math.max(1, Math.min(28, Math.floor(900 / of.width), Math.floor(460 / of.height)));
  const wide = of.width >= of.height;
  const at = (event: MouseEvent): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    const place = (share: number, cells: number): number => Math.min(cells - 1, Math.max(0, Math.floor(share * cells)));
    return [place((event.clientY - box.top) / box.height, of.height), place((event.clientX - box.left) / box.width, of.width)];
  };
  return (
    <figure class="heat">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Heat map of ${of.rows} rows and ${of.columns} columns, from ${value(low)} to ${value(high)}`}
        style={{
          width: of.whole ? `${of.width * cell}px` : wide ? "min(100%, 640px)" : "auto",
          height: of.whole ? `${of.height * cell}px` : wide ? "auto" : "460px",
          aspectRatio: of.whole ? "auto" : `${of.width} / ${of.height}`,
        }}
        onMouseMove={(event) => setUnder(at(event))}
        onMouseLeave={() => setUnder(null)}
        onKeyDown={(event) => {
          const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
          if (!move) return;
          const [row, column] = under ?? [0, 0];
          setUnder([
            Math.min(of.height - 1, Math.max(0, row + move[0]!)),
            Math.min(of.width - 1, Math.max(0, column + move[1]!)),
          ]);
          event.preventDefault();
        }}
      />
      <figcaption>
        <span class="heat-scale" aria-hidden="true">
          <i class="low" /> {value(-Math.max(Math.abs(low), Math.abs(high)), 3)} <i class="middle" /> 0 <i class="high" />{" "}
          {value(Math.max(Math.abs(low), Math.abs(high)), 3)} <i class="nan" /> NaN <i class="inf" /> Inf
        </span>
        <output class="number" data-testid="heat-value">
          {under === null ? "Point at a cell to read it." : <Cell of={of} row={under[0]} column={under[1]} />}
        </output>
      </figcaption>
    </figure>
  );
}

function Cell({ of, row, column }: { of: Heat; row: number; column: number }): JSX.Element {
  const place = row * of.width + column;
  if (of.whole)
    return (
      <>
        row {row}, column {column}: <b>{value(of.mean[place]!, 8)}</b>
      </>
    );
  const range = (index: number, cells: number, all: number): string => {
    const first = Math.floor((index * all) / cells);
    const last = Math.floor(((index + 1) * all) / cells) - 1;
    return first >= last ? String(first) : `${first}–${last}`;
  };
  return (
    <>
      rows {range(row, of.height, of.rows)}, columns {range(column, of.width, of.columns)}: mean{" "}
      <b>{value(of.mean[place]!, 6)}</b>, from {value(of.least[place]!, 6)} to {value(of.greatest[place]!, 6)}
    </>
  );
}
