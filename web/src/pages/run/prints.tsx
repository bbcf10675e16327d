// Calls of `tensight.print`: texts and tensors as the script has named them, with their step and line.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Command, Empty, SearchField, Value } from "../../parts/small";
import { useAsked } from "../../asked";
import { follow } from "../../route";
import { count, shape, shown, value, when } from "../../text";
import type { NumberedPrint, PrintedValue } from "../../types";

const words = signal("");

export function Prints(): JSX.Element {
  const prints = useAsked<NumberedPrint>("prints");
  if (prints === null) return <Empty title="Loading…" />;
  if (prints.length === 0)
    return (
      <Empty title="Nothing was printed with tensight.print">
        <p>It takes texts and tensors, also inside compiled code and graphs, and shows them here with their step:</p>
        <Command text={'tensight.print("x and y", x, y)'} />
      </Empty>
    );
  const wanted = words.value.toLowerCase();
  const found = prints.filter(({ print }) => !wanted || print.values.some((one) => one.text.toLowerCase().includes(wanted)));
  return (
    <>
      <div class="filters">
        <SearchField label="Search the prints" words={words} />
        <span class="muted">{count(found.length, "print")}</span>
      </div>
      <ol class="prints" aria-label="Prints">
        {found.map(({ number, print }) => (
          <li key={number}>
            <a class="print-step number" title={when(Number(print.time))} {...follow({ step: print.step })}>
              {print.step}
            </a>
            <div class="print-values">
              {print.values.map((one, index) => (
                <PrintedOne key={index} of={one} />
              ))}
              <span class="muted small">
                {print.source && `${shown(print.source.file, 120)}:${print.source.line}`}
                {print.where && print.where !== "eager" && ` · ${shown(print.where, 40)}`}
              </span>
            </div>
          </li>
        ))}
      </ol>
    </>
  );
}

function PrintedOne({ of }: { of: PrintedValue }): JSX.Element {
  const text = <pre>{lines(of.text)}</pre>;
  if (of.shape === undefined || of.shape === null) return text;
  return (
    <div class="print-tensor">
      <span class="muted small number">
        {shown(of.dtype ?? "", 40)} {shape(of.shape)}
        {of.min !== undefined && of.min !== null && (
          <>
            {" "}
            · min <Value of={of.min} digits={5} /> · max <Value of={of.max} digits={5} /> · mean{" "}
            <Value of={of.mean} digits={5} />
          </>
        )}
        {of.nan ? <b class="bad"> · {value(of.nan)} NaN</b> : null}
        {of.inf ? <b class="bad"> · {value(of.inf)} Inf</b> : null}
      </span>
      {text}
    </div>
  );
}

/** Line ends of a tensor's text are its rows; everything else that hides is shown. */
export const lines = (text: string): string =>
  text
    .split("\n")
    .slice(0, 60)
    .map((line) => shown(line, 2000))
    .join("\n");
