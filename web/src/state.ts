// What is known of the run that is shown, kept fresh by the live connection.

import { computed, effect, signal } from "@preact/signals";
import { at, get, post, Refused } from "./net";
import { go, route } from "./route";
import type {
  ConditionForm,
  Control,
  Driving,
  LiveNews,
  NodeRow,
  StepColumns,
  StepNews,
  Summary,
  Welcome,
} from "./types";

export const welcome = signal<Welcome | null>(null);
export const summary = signal<Summary | null>(null);
const heard = signal<Control | null>(null);
export const control = computed<Control | null>(() => heard.value);
export const columns = signal<ReadonlyMap<number, StepColumns>>(new Map());
export const nodes = signal<readonly NodeRow[] | null>(null);
export const conditions = signal<readonly ConditionForm[]>([]);
export const trouble = signal<Refused | null>(null); // why the run cannot be shown at all
export const notice = signal<{ text: string; bad: boolean } | null>(null);
export const online = signal(true); // whether the live connection is up
export const connectedRuns = signal<readonly string[]>([]);
/** False while the one thing the user waits for is being fetched: what stands around it is asked for afterwards. */
export const calm = signal(true);
export const sequence = signal(0); // grows with everything new
export const dialog = signal<"help" | "watchpoint" | "terminate" | null>(null);

let known = { about: -1, structure: -1, steps: 0, hits: 0, counted: 0 };
let loading = false;
let again: LiveNews | null = null;

/** The rank whose numbers are shown. */
export const rank = computed<number>(() => {
  const ranks = [...columns.value.keys()];
  const asked = route.value.rank;
  return asked !== null && ranks.includes(asked) ? asked : (ranks[0] ?? 0);
});

/** A tensor in an address: the same number may mean another tensor on another rank. */
export const tensorName = (id: number): string => (columns.peek().size > 1 ? `${id}@${rank.peek()}` : String(id));

export const rows = computed<StepColumns | null>(() => columns.value.get(rank.value) ?? null);

export const lastStep = computed<number>(() => {
  const steps = rows.value?.step;
  return steps && steps.length > 0 ? steps[steps.length - 1]! : -1;
});

/** The step that every panel shows. */
export const step = computed<number>(() => route.value.step ?? lastStep.value);

export const isLive = computed<boolean>(() => {
  const state = control.value?.state;
  return state !== undefined && state !== "ended" && state !== "lost";
});

export function say(text: string, bad = false): void {
  const note = { text, bad };
  notice.value = note;
  setTimeout(
    () => {
      if (notice.peek() === note) notice.value = null;
    },
    bad ? 9000 : 4000,
  );
}

/** Runs something that may be refused, and says so. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    say(error instanceof Refused ? error.message : String(error), true);
    return undefined;
  }
}

/** Keeps the later of two states: an answer to a command may arrive after the news of what it has brought about. */
function takeControl(now: Control | null): void {
  const before = heard.peek();
  if (now !== null && before !== null && now.version < before.version) return;
  heard.value = now;
  if (now?.state === "lost" && before !== null && before.state !== "lost") void reload(); // it may have been killed
}

export async function drive(command: Driving): Promise<void> {
  const run = route.peek().run;
  if (run === null) return;
  const answer = await attempt(() => post<Control | null>(at(run, "control"), command));
  if (answer && route.peek().run === run) takeControl(answer);
  if (answer && command.do !== "pause" && route.peek().step !== null) go({ step: null }, true);
}

/** Takes news of the live connection: asks for what is new, and only for that. */
export async function take(news: LiveNews): Promise<void> {
  if (news.run !== route.peek().run) return;
  takeControl(news.control);
  if (loading) {
    again = news;
    return;
  }
  loading = true;
  try {
    await load(news.run, news);
    trouble.value = null;
  } catch (error) {
    if (route.peek().run === news.run && error instanceof Refused) trouble.value = error;
  } finally {
    loading = false;
  }
  if (again) {
    const next = again;
    again = null;
    void take(next);
  }
}

async function load(run: string, news: LiveNews): Promise<void> {
  const fresh = (): boolean => route.peek().run === run;
  if (news.about > known.about || summary.peek() === null) {
    const got = await get<Summary>(at(run));
    if (!fresh()) return;
    summary.value = got;
    known.about = news.about;
  }
  if (news.sequence > known.steps || columns.peek().size === 0) {
    const got = await get<StepNews>(at(run, "steps", { since: known.steps }));
    if (!fresh()) return;
    if (got.ranks.length > 0) columns.value = joined(columns.peek(), got);
    known.steps = got.sequence;
  }
  const total = hitCount();
  const stale = total !== known.hits && Date.now() - known.counted > 1500; // counts in the tree may lag a little
  if (news.structure > known.structure || nodes.peek() === null || stale) {
    const got = await get<NodeRow[]>(at(run, "nodes"));
    if (!fresh()) return;
    nodes.value = got;
    known.structure = news.structure;
    known.hits = total;
    known.counted = Date.now();
  }
  sequence.value = news.sequence;
}

function hitCount(): number {
  let total = 0;
  for (const rank of columns.peek().values()) for (const hits of rank.hits) total += hits;
  return total;
}

/** Fetches the summary again, after something was changed from here. */
export async function reload(): Promise<void> {
  const run = route.peek().run;
  if (run !== null) await attempt(async () => (summary.value = await get<Summary>(at(run))));
}

function joined(before: ReadonlyMap<number, StepColumns>, news: StepNews): ReadonlyMap<number, StepColumns> {
  const after = new Map(before);
  for (const more of news.ranks) {
    const old = after.get(more.rank);
    if (!old) {
      after.set(more.rank, more);
      continue;
    }
    const scalars: Record<string, StepColumns["loss"][number][]> = {};
    for (const name of new Set([...Object.keys(old.scalars), ...Object.keys(more.scalars)]))
      scalars[name] = [
        ...(old.scalars[name] ?? old.step.map(() => null)),
        ...(more.scalars[name] ?? more.step.map(() => null)),
      ];
    after.set(more.rank, {
      rank: more.rank,
      step: old.step.concat(more.step),
      time: old.time.concat(more.time),
      seconds: old.seconds.concat(more.seconds),
      loss: old.loss.concat(more.loss),
      hits: old.hits.concat(more.hits),
      depth: old.depth.concat(more.depth),
      epoch: old.epoch.concat(more.epoch),
      scalars,
    });
  }
  return new Map([...after].sort(([a], [b]) => a - b));
}

export function forget(): void {
  known = { about: -1, structure: -1, steps: 0, hits: 0, counted: 0 };
  summary.value = null;
  heard.value = null;
  columns.value = new Map();
  nodes.value = null;
  trouble.value = null;
  sequence.value = 0;
}

/** First contact: who serves us, and which conditions there are. */
export async function begin(): Promise<void> {
  try {
    welcome.value = await get<Welcome>("/api/welcome");
    conditions.value = await get<ConditionForm[]>("/api/conditions");
    const only = welcome.value.run;
    if (only && route.peek().run === null) go({ run: only }, true);
  } catch (error) {
    trouble.value = error instanceof Refused ? error : new Refused(0, String(error));
  }
}

effect(() => {
  const run = route.value.run;
  document.title = run === null ? "Tensight" : `${run} · Tensight`;
});
