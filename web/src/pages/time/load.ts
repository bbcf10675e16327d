// The profiles of the run that is shown, asked for once per run.

import { signal } from "@preact/signals";
import { at, get, Refused } from "../../net";
import type { TimeDifference, TimeView } from "../../types";

export const view = signal<TimeView | null>(null);
export const refusal = signal("");
export const changed = signal<TimeDifference | null>(null);
let asked = "";

export async function load(run: string): Promise<void> {
  if (asked === run && view.peek() !== null) return;
  asked = run;
  view.value = null;
  refusal.value = "";
  try {
    const got = await get<TimeView>(at(run, "time"));
    if (asked === run) view.value = got;
  } catch (error) {
    refusal.value = error instanceof Refused ? error.message : String(error);
  }
}

export async function loadDifference(run: string, other: string | null): Promise<void> {
  changed.value = null;
  if (!other) return;
  try {
    changed.value = await get<TimeDifference>(at(run, "time/against", { other }));
  } catch (error) {
    refusal.value = error instanceof Refused ? error.message : String(error);
  }
}

export const PARTS = ["data", "forward", "backward", "update", "rest"] as const;
