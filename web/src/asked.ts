// A list of the run that is shown, asked for again whenever there is anything new.

import { useSignal, useSignalEffect } from "@preact/signals";
import { at, get } from "./net";
import { route } from "./route";
import { rank, sequence } from "./state";

/** What the server answers for this noun of the run and rank; null until it has. A refusal keeps what was there. */
export function useAsked<T>(noun: string): readonly T[] | null {
  const answer = useSignal<{ place: string; list: readonly T[] } | null>(null);
  useSignalEffect(() => {
    const run = route.value.run;
    const place = run === null ? "" : at(run, noun, { rank: rank.value });
    void sequence.value; // asked again when there is anything new
    if (answer.peek()?.place !== place) answer.value = null; // never the list of another run
    let wanted = true;
    const take = (list: readonly T[]): void => {
      if (wanted) answer.value = { place, list };
    };
    if (place)
      get<T[]>(place)
        .then(take)
        .catch(() => take(answer.peek()?.list ?? []));
    return () => {
      wanted = false;
    };
  });
  return answer.value?.list ?? null;
}
