// The state in a word, with a sign of its own so that colour is not all.

import type { JSX } from "preact";

const SIGNS: Record<string, [sign: string, word: string]> = {
  waiting: ["○", "waiting"],
  running: ["●", "running"],
  pausing: ["◐", "pausing"],
  paused: ["❚❚", "paused"],
  stopping: ["◍", "stopping"],
  ended: ["■", "ended"],
  lost: ["⚠", "lost"],
  finished: ["✓", "finished"],
  stopped: ["■", "stopped"],
  failed: ["✖", "failed"],
  killed: ["✖", "killed"],
  gone: ["✖", "gone"],
  stalled: ["⚠", "stalled"],
  broken: ["⚠", "unreadable"],
};

export function StatePill({ state }: { state: string }): JSX.Element {
  const [sign, word] = SIGNS[state] ?? ["?", state];
  return (
    <span class={`pill ${state}`}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}
