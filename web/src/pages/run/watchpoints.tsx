// The watchpoints: switched on and off, changed, removed; the recommended set is folded away.

import { computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { at, post, put, remove } from "../../net";
import { route } from "../../route";
import { attempt, conditions, dialog, reload, say, summary } from "../../state";
import { setting, shown, value } from "../../text";
import type { Watchpoint } from "../../types";
import { recheck } from "./hits";

export const editing = signal<Partial<Watchpoint> | null>(null);
const unfolded = signal(false);
const declined = signal<ReadonlySet<string>>(new Set());

export function edit(point: Partial<Watchpoint>): void {
  editing.value = point;
  dialog.value = "watchpoint";
}

const own = computed(() => (summary.value?.watchpoints ?? []).filter((one) => !one.recommended));
const recommended = computed(() => (summary.value?.watchpoints ?? []).filter((one) => one.recommended));

function title(point: Partial<Watchpoint>): string {
  if (point.name) return shown(point.name);
  if (point.expression) return shown(point.expression);
  return conditions.value.find((one) => one.code === point.condition)?.title ?? point.condition ?? "";
}

function settingsInWords(parameters: Record<string, unknown> | undefined): string {
  return Object.entries(parameters ?? {})
    .map(([name, set]) => [...setting(name), value(set as number)].filter(Boolean).join(" "))
    .join(", ");
}

const base = (): string => at(route.peek().run!, "watchpoints");

async function change(work: () => Promise<unknown>): Promise<void> {
  await attempt(work);
  await reload();
}

async function useRecommended(): Promise<void> {
  await change(() => post(`${base()}/recommended`));
}

export function Watchpoints(): JSX.Element {
  return (
    <section class="panel watchpoints" aria-label="Watchpoints">
      <header class="panel-head">
        <h2>Watchpoints</h2>
        <span class="muted number">{own.value.length + recommended.value.length}</span>
        <span class="grow" />
        <button
          class="quiet"
          aria-label="Recheck this step"
          title="Judge the step shown again with the watchpoints of now"
          onClick={() => void recheck()}
        >
          <Icon name="again" />
        </button>
        <button
          class="quiet"
          aria-label="Remove all watchpoints"
          title="Remove all watchpoints"
          disabled={own.value.length + recommended.value.length === 0}
          onClick={() => {
            if (confirm("Remove all watchpoints, the recommended ones too?")) void change(() => remove(base()));
          }}
        >
          <Icon name="bin" />
        </button>
        <button class="quiet" aria-label="New watchpoint" title="New watchpoint" onClick={() => edit({ on: "*" })}>
          <Icon name="plus" />
        </button>
      </header>
      <div class="scroll">
        {own.value.length === 0 && (
          <p class="pad muted">None of your own yet. Set one with +, or on a selected module.</p>
        )}
        <ul class="points">
          {own.value.map((point) => (
            <Point key={point.id} point={point} />
          ))}
        </ul>
        {recommended.value.length > 0 ? (
          <>
            <button class="fold" aria-expanded={unfolded.value} onClick={() => (unfolded.value = !unfolded.value)}>
              <Icon name={unfolded.value ? "down" : "right"} /> Recommended ({recommended.value.length})
            </button>
            {unfolded.value && (
              <ul class="points">
                {recommended.value.map((point) => (
                  <Point key={point.id} point={point} />
                ))}
              </ul>
            )}
          </>
        ) : (
          <p class="pad">
            <button onClick={() => void useRecommended()}>Add the recommended set</button>
          </p>
        )}
      </div>
    </section>
  );
}

function Point({ point }: { point: Watchpoint }): JSX.Element {
  const enabled = point.enabled ?? true;
  return (
    <li class={enabled ? "point" : "point off"}>
      <input
        type="checkbox"
        aria-label={`Watch for ${title(point)}`}
        checked={enabled}
        onChange={(event) =>
          void change(() => put(`${base()}/${point.id}`, { ...point, enabled: event.currentTarget.checked }))
        }
      />
      <span class="code-tag" title={conditions.value.find((one) => one.code === point.condition)?.finds}>
        {shown(point.condition)}
      </span>
      <span class="point-text">
        <span class="point-title" title={title(point)}>
          {title(point)}
        </span>
        <span class="muted small ellipsis" title={shown(point.on ?? "*", 2000)}>
          {[settingsInWords(point.parameters), `on ${shown(point.on ?? "*")}`].filter(Boolean).join(" · ")}
        </span>
      </span>
      <button class="quiet" aria-label={`Edit ${title(point)}`} title="Edit" onClick={() => edit(point)}>
        <Icon name="edit" />
      </button>
      <button
        class="quiet"
        aria-label={`Remove ${title(point)}`}
        title="Remove"
        onClick={() =>
          void change(async () => {
            await remove(`${base()}/${point.id}`);
            say(`Removed: ${title(point)}`);
          })
        }
      >
        <Icon name="cross" />
      </button>
    </li>
  );
}

/** Asked once when a training without the recommended set is connected. */
export function Offer(): JSX.Element | null {
  const run = route.value.run ?? "";
  if (recommended.value.length > 0 || declined.value.has(run)) return null;
  return (
    <div class="banner" role="region" aria-label="Recommended watchpoints">
      <span>Check this training for the common anomalies, with the recommended watchpoints?</span>
      <button class="primary" onClick={() => void useRecommended()}>
        Use them
      </button>
      <button class="quiet" onClick={() => (declined.value = new Set([...declined.value, run]))}>
        Not now
      </button>
    </div>
  );
}
