// The ranks of a training: where each is, what it waits in, and which are gone.

import { computed, signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { at, get } from "../../net";
import { follow, route } from "../../route";
import { control, summary } from "../../state";
import { duration, shown } from "../../text";
import type { RankPlace } from "../../types";
import { RankSteps } from "./rank_steps";
import { StatePill } from "./state_pill";

const places = signal<readonly RankPlace[]>([]);
const EVERY = 3000;

async function refresh(run: string): Promise<void> {
  try {
    const got = await get<RankPlace[]>(at(run, "ranks"));
    if (route.peek().run === run) places.value = got;
  } catch {
    // the page says elsewhere that the run, or its server, cannot be reached
  }
}

const shownRun = computed(() => route.value.run);
const going = computed(() => summary.value?.row.ended === "running" || control.value !== null);

/** Asks where the ranks are, again and again while the training goes on. */
export function useRanks(): void {
  useSignalEffect(() => {
    const run = shownRun.value;
    places.value = [];
    if (run === null) return;
    void refresh(run);
    if (!going.value) return;
    const timer = setInterval(() => void refresh(run), EVERY);
    return () => clearInterval(timer);
  });
}

const gone = computed(() => places.value.filter((one) => one.state === "gone"));
const stalled = computed(() => places.value.filter((one) => one.state === "stalled"));

/** What is wrong with the ranks, above everything else. */
export function RankTrouble(): JSX.Element | null {
  const several = (summary.value?.row.ranks ?? 1) > 1;
  const lost = several ? gone.value : [];
  const late = stalled.value;
  if (lost.length === 0 && late.length === 0) return null;
  return (
    <div class="banner warn" role="alert">
      <span>
        {lost.map((one) => (
          <>
            Rank {one.rank} is gone: its process {one.process || "–"}
            {one.host && ` on ${shown(one.host)}`} ended without a word in step {one.step}
            {one.operation && `, in ${shown(one.operation)} (${shown(one.place)})`}.{" "}
          </>
        ))}
        {late.length > 0 && (
          <>
            No step has ended for {duration(Math.max(...late.map((one) => Number(one.seconds))))}
            {several ? ". " : `: it is in ${shown(late[0]!.operation)} (${shown(late[0]!.place)}). `}
          </>
        )}
        <a {...follow({ tab: "run" })}>{several ? "See what each rank is in" : "See the stack"}</a>
      </span>
    </div>
  );
}

export function Ranks(): JSX.Element | null {
  if (places.value.length < 2 && stalled.value.length === 0 && gone.value.length === 0) return null;
  return (
    <section aria-label="Ranks">
      <h3>Ranks</h3>
      <table class="rows">
        <thead>
          <tr>
            <th class="right">Rank</th>
            <th>State</th>
            <th class="right">In step</th>
            <th class="right">For</th>
            <th>In</th>
            <th>At</th>
            <th>Process</th>
          </tr>
        </thead>
        <tbody>
          {places.value.map((one) => (
            <tr key={one.rank}>
              <td class="right number">
                <a {...follow({ rank: one.rank })}>{one.rank}</a>
              </td>
              <td>
                <StatePill state={one.state} />
              </td>
              <td class="right number">{one.step}</td>
              <td class="right number">{Number(one.seconds) > 0 ? duration(Number(one.seconds)) : "–"}</td>
              <td class="wrap">
                {one.stack.length > 0 ? (
                  <details>
                    <summary>{shown(one.operation) || "?"}</summary>
                    <ol class="calls">
                      {one.stack.map((call, i) => (
                        <li key={i}>
                          <code>
                            {shown(call.file)}:{call.line} {shown(call.function)}
                          </code>
                          {call.code && <pre class="code">{shown(call.code)}</pre>}
                        </li>
                      ))}
                    </ol>
                  </details>
                ) : (
                  shown(one.operation) || "–"
                )}
              </td>
              <td>{shown(one.place) || "–"}</td>
              <td class="muted">
                {one.process || "–"}
                {one.host && ` · ${shown(one.host)}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <RankSteps />
    </section>
  );
}
