// The tensor that is shown: which one, of which step, which slice, and what it is compared with.

import { computed, effect, signal } from "@preact/signals";
import { at, get, Refused } from "../../net";
import { go, route } from "../../route";
import { calm, rank, sequence, step, tensorName } from "../../state";
import type { RunRow, TensorPage, TensorValues } from "../../types";
import { type Heat, read } from "./heat_data";

export const page = signal<TensorPage | null>(null);
export const values = signal<TensorValues | null>(null);
export const heat = signal<Heat | null>(null);
export const refused = signal("");
export const wrong = signal(""); // why the values cannot be shown
export const corner = signal({ row: 0, column: 0 });
export const tolerance = signal({ rtol: "1e-5", atol: "1e-8" });
export const runs = signal<readonly RunRow[]>([]);

export const id = computed(() => (/^\d+(@\d+)?$/.test(route.value.tensor ?? "") ? route.value.tensor : null));
const pageOf = signal(""); // which tensor, of which rank, `page` is
const wantedPage = computed(() => `${id.value} ${rank.value}`);

/** The step whose values are shown: the one of the page when they were kept, else the nearest before, else the first. */
export const valueStep = computed<number | null>(() => {
  const kept = page.value?.kept ?? [];
  if (kept.length === 0) return null;
  return kept.filter((one) => one <= step.value).at(-1) ?? kept[0]!;
});

function plainSlice(shape: readonly number[]): string {
  if (shape.length <= 2) return "";
  return `[${[...shape.slice(0, -2).map(() => "0"), ":", ":"].join(", ")}]`;
}

export const slice = computed(() => route.value.slice ?? plainSlice(page.value?.info.shape ?? []));

/** What is asked of the server for values: 'step:12', 'rank:1' or 'run:name@12' is what they are compared with. */
export const query = computed(() => {
  const against = route.value.against ?? "";
  const run = /^run:(.*?)(?:@(\d+))?$/s.exec(against);
  return {
    tensor: id.value,
    rank: rank.value,
    step: valueStep.value,
    slice: slice.value,
    other_step: /^step:(\d+)$/.exec(against)?.[1] ?? run?.[2] ?? null,
    other_rank: /^rank:(\d+)$/.exec(against)?.[1] ?? null,
    other_run: run?.[1] ?? null,
    ...(against === "" ? {} : tolerance.value),
  };
});

effect(() => {
  const run = route.value.run;
  const tensor = id.value;
  const asked = { tensor, step: step.value < 0 ? null : step.value, rank: rank.value };
  const mine = wantedPage.value;
  void sequence.value;
  if (run === null || tensor === null || route.value.tab !== "tensor") return;
  get<TensorPage>(at(run, "tensor", asked))
    .then((got) => {
      if (wantedPage.peek() !== mine) return;
      page.value = got;
      pageOf.value = mine;
      refused.value = "";
      if (got.kept.length === 0) calm.value = true;
    })
    .catch((error: unknown) => {
      calm.value = true;
      page.value = null;
      refused.value = error instanceof Refused ? error.message : String(error);
    });
});

let version = 0;
effect(() => {
  const run = route.value.run;
  const asked = query.value;
  const from = corner.value;
  if (!calm.value || run === null || asked.step === null || page.value === null || pageOf.value !== wantedPage.value || route.value.tab !== "tensor") return;
  const mine = ++version;
  get<TensorValues>(at(run, "tensor/values", { ...asked, ...from }))
    .then((got) => {
      if (mine !== version) return;
      values.value = got;
      wrong.value = "";
    })
    .catch((error: unknown) => {
      if (mine !== version) return;
      values.value = null;
      wrong.value = error instanceof Refused ? error.message : String(error);
    });
});

let drawing = 0;
let drawn = "";
effect(() => {
  const run = route.value.run;
  const asked = query.value;
  if (run === null || asked.step === null || page.value === null || pageOf.value !== wantedPage.value || route.value.tab !== "tensor") return;
  const path = at(run, "tensor/heat", { ...asked, most: 512 });
  if (path === drawn) return;
  drawn = path;
  const mine = ++drawing;
  fetch(path, { credentials: "same-origin" })
    .then(async (response) => (response.ok ? read(await response.arrayBuffer()) : null))
    .catch(() => null)
    .then((got) => {
      if (mine !== drawing) return;
      heat.value = got;
      calm.value = true;
    });
});

let shownTensor: string | null = null;
effect(() => {
  const now = `${route.value.run} ${route.value.tensor}`;
  if (now === shownTensor) return;
  shownTensor = now;
  page.value = null;
  values.value = null;
  heat.value = null;
  drawn = "";
  wrong.value = "";
  calm.value = id.peek() === null || route.peek().tab !== "tensor"; // the heat map comes first
  corner.value = { row: 0, column: 0 };
});

effect(() => {
  if (route.value.tab !== "tensor" || route.value.run === null) return;
  get<RunRow[]>("/api/runs")
    .then((got) => (runs.value = got))
    .catch(() => undefined);
});

export function setSlice(text: string): void {
  corner.value = { row: 0, column: 0 };
  go({ slice: text.trim() === "" ? "" : text.trim() });
}

/** Opens the view of a tensor. */
export function view(tensor: number, at_: number | null = null): void {
  go({ tab: "tensor", tensor: tensorName(tensor), slice: null, against: null, ...(at_ === null ? {} : { step: at_ }) });
}
