// Samples of batches that were looked at with `check_batch`: images, texts, rows of a table, and what is odd.

import type { JSX } from "preact";
import { Command, Empty, Value } from "../../parts/small";
import { useAsked } from "../../asked";
import { follow } from "../../route";
import { shown, when } from "../../text";
import type { BatchSamples, NumberedSamples, Sample } from "../../types";
import { lines } from "../run/prints";
import "./data.css";

export function Data(): JSX.Element {
  const batches = useAsked<NumberedSamples>("samples");
  if (batches === null) return <Empty title="Loading…" />;
  if (batches.length === 0)
    return (
      <Empty title="No batch was looked at">
        <p>Show samples and labels of a batch, and what is odd about them, with a line in the training:</p>
        <Command text="tensight.kit.check_batch((x, y))" />
        <p>Inputs of the network whose values were kept are also drawn as images in the tensor view.</p>
      </Empty>
    );
  return (
    <div class="data">
      {batches.slice().reverse().map((one) => (
        <Batch key={one.number} of={one.batch} />
      ))}
    </div>
  );
}

function Batch({ of }: { of: BatchSamples }): JSX.Element {
  const tables = of.samples.filter((one) => one.kind === "table" || one.kind === "values");
  const others = of.samples.filter((one) => !tables.includes(one));
  return (
    <article aria-label={`Batch in step ${of.step}`}>
      <header>
        <a title={when(Number(of.time))} {...follow({ step: of.step })}>
          step {of.step}
        </a>
        <span class="muted number">{of.shapes.map((one) => shown(one, 80)).join(" · ")}</span>
        <span class="grow" />
        <span class="muted small">{of.source && `${shown(of.source.file, 120)}:${of.source.line}`}</span>
      </header>
      {(of.troubles ?? []).map((one) => (
        <p key={one} class="warn-text">
          ⚠ {shown(one, 600)}
        </p>
      ))}
      {others.length > 0 && (
        <ul class="samples">
          {others.map((one) => (
            <li key={one.index}>
              {one.kind === "image" && one.png ? (
                <img alt={`Sample ${one.index}`} src={`data:image/png;base64,${one.png}`} />
              ) : (
                <pre class="sample-text">{lines(one.text ?? "")}</pre>
              )}
              <Label of={one} />
            </li>
          ))}
        </ul>
      )}
      {tables.length > 0 && <Rows of={tables} />}
    </article>
  );
}

function Label({ of }: { of: Sample }): JSX.Element {
  return (
    <span class="small">
      <span class="muted number">{of.index}</span> <b>{shown(of.label ?? "", 80)}</b>
      {of.low !== undefined && of.low !== null && (
        <span class="muted">
          {" "}
          <Value of={of.low} digits={3} /> to <Value of={of.high} digits={3} />
        </span>
      )}
    </span>
  );
}

const MOST_COLUMNS = 40;

function Rows({ of }: { of: readonly Sample[] }): JSX.Element {
  const columns = of[0]!.columns ?? [];
  const width = Math.min(MOST_COLUMNS, Math.max(...of.map((one) => one.row?.length ?? 0)));
  return (
    <div class="sample-rows">
      <table class="rows">
        <thead>
          <tr>
            <th class="right">Sample</th>
            {Array.from({ length: width }, (_, index) => (
              <th key={index} class="right">
                {shown(columns[index] ?? String(index), 40)}
              </th>
            ))}
            <th>Label</th>
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={one.index}>
              <td class="right number muted">{one.index}</td>
              {Array.from({ length: width }, (_, index) => (
                <td key={index} class="right number">
                  <Value of={one.row?.[index] ?? null} digits={5} />
                </td>
              ))}
              <td>
                <b>{shown(one.label ?? "", 80)}</b>
                {one.row === undefined && one.text && <span class="mono"> {shown(one.text, 300)}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
