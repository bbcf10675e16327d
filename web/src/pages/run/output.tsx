// What the script prints: line by line with the step, as its terminal shows it, and through `tensight.print`.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Empty, SearchField } from "../../parts/small";
import { useAsked } from "../../asked";
import { follow, route } from "../../route";
import { count, shown, when } from "../../text";
import type { PrintLine } from "../../types";
import { Prints } from "./prints";

const words = signal("");
const stream = signal("");
const FIRST = 1000; // lines that are drawn; the newest

/** Lines of the terminal, or calls of `tensight.print`. */
export function Output(): JSX.Element {
  const prints = route.value.part === "prints";
  return (
    <div class="output">
      <div class="output-parts">
        <span class="segments" role="group" aria-label="Part of the output">
          <a class={prints ? "" : "on"} aria-current={!prints} {...follow({ part: null })}>
            terminal
          </a>
          <a class={prints ? "on" : ""} aria-current={prints} {...follow({ part: "prints" })}>
            tensight.print
          </a>
        </span>
      </div>
      {prints ? <Prints /> : <Lines />}
    </div>
  );
}

function Lines(): JSX.Element {
  const lines = useAsked<PrintLine>("output");
  if (lines === null) return <Empty title="Loading…" />;
  if (lines.length === 0)
    return (
      <Empty title="Nothing was printed">
        <p>Lines that the script prints, or logs to its standard output or error, are shown here with their step.</p>
      </Empty>
    );
  const wanted = words.value.toLowerCase();
  const found = lines.filter(
    (one) =>
      (stream.value === "" || one.stream === stream.value) && (!wanted || one.text.toLowerCase().includes(wanted)),
  );
  const drawn = found.slice(-FIRST);
  return (
    <>
      <div class="filters">
        <SearchField label="Search the output" words={words} />
        <select
          aria-label="Stream"
          value={stream.value}
          onChange={(event) => (stream.value = event.currentTarget.value)}
        >
          <option value="">output and errors</option>
          <option value="stdout">output</option>
          <option value="stderr">errors</option>
        </select>
        <span class="muted">
          {count(found.length, "line")}
          {drawn.length < found.length && `, the last ${drawn.length} shown`}
        </span>
      </div>
      <ol class="print-lines" aria-label="Output of the script">
        {drawn.map((one, i) => (
          <li key={i} class={one.stream === "stderr" ? "print err" : one.stream === "" ? "print ours" : "print"}>
            <a class="print-step number" title={when(Number(one.time))} {...follow({ step: one.step })}>
              {one.step}
            </a>
            <code>{shown(one.text, 2000) || " "}</code>
          </li>
        ))}
      </ol>
    </>
  );
}
