// The searches of the folder that is shown, above its runs.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get } from "../../net";
import { shown, value } from "../../text";
import type { SearchView } from "../../types";
import "./tune.css";

const searches = signal<readonly SearchView[]>([]);

export function Searches(): JSX.Element | null {
  useEffect(() => {
    void get<SearchView[]>("/api/searches")
      .then((found) => (searches.value = found))
      .catch(() => undefined); // the list of runs tells what is wrong
  }, []);
  if (searches.value.length === 0) return null;
  return (
    <nav class="searches" aria-label="Searches">
      {searches.value.map(({ id, search }) => {
        const best = search.trials?.find((one) => one.number === search.best);
        return (
          <span key={id}>
            <a href={`/tune/${encodeURIComponent(id)}`}>{shown(id)}</a>{" "}
            <span class="muted">
              search of {search.trials?.length ?? 0} trials{best ? `, best ${shown(search.target)} ${value(best.value)}` : ""}
            </span>
          </span>
        );
      })}
    </nav>
  );
}
