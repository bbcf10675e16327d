// The header: which run, what it does, and the buttons that drive it.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "../../parts/icons";
import { ThemeSwitch } from "../../parts/theme";
import { follow, go, home, route } from "../../route";
import { columns, control, dialog, drive, isLive, lastStep, online, rank, rows, summary, welcome } from "../../state";
import { nodeName, shown } from "../../text";
import { RankTrouble } from "./ranks";
import { StatePill } from "./state_pill";

export const stepCount = signal(1);
const MOST_RANKS = 8; // as buttons

export function Header(): JSX.Element {
  const run = route.value.run ?? "";
  const about = summary.value;
  const now = control.value;
  const killed = now?.state === "lost" && about?.row.ended === "killed";
  const state = now && now.state !== "ended" && !killed ? now.state : about?.row.ended;
  const ranks = [...columns.value.keys()];
  const epoch = rows.value?.epoch[rows.value.epoch.length - 1];
  return (
    <>
      <header class="top">
        <a
          class="brand"
          href="/"
          onClick={(event) => {
            event.preventDefault();
            if (welcome.value?.mode !== "run") home();
            else go({ step: null, node: null, network: null, tab: "findings" });
          }}
        >
          Tensight
        </a>
        <h1 class="run-name ellipsis" title={shown(about?.row.path ?? run, 2000)}>
          {shown(run)}
        </h1>
        {state && <StatePill state={state} />}
        {about && (
          <span class="number" data-testid="state-step">
            {lastStep.value < 0 ? "no step yet" : `step ${Math.max(lastStep.value, now?.step ?? -1)}`}
          </span>
        )}
        {epoch !== null && epoch !== undefined && <span class="number muted epoch">epoch {epoch}</span>}
        <span class="ellipsis reason" role="status">
          {now?.state === "paused" && now.node !== null
            ? `at ${nodeName(now.node)}, ${now.phase}: ${shown(now.reason)}`
            : now && now.state !== "running" && now.state !== "ended" && !killed
              ? shown(now.reason)
              : ""}
        </span>
        <span class="grow" />
        {!online.value && (
          <span class="pill lost" role="alert">
            ⚠ server gone, trying again
          </span>
        )}
        {ranks.length > 1 && <Rank all={ranks} />}
        <ThemeSwitch />
        <button
          class="quiet"
          aria-label="Keys and help"
          title="Keys and help (?)"
          onClick={() => (dialog.value = "help")}
        >
          ?
        </button>
      </header>
      {isLive.value && <Controls />}
      <RankTrouble />
      {killed && (
        <div class="banner bad" role="alert">
          The training was killed from outside ({shown(now.client)}). What it wrote is all here.
        </div>
      )}
      {now?.state === "lost" && !killed && (
        <div class="banner warn" role="alert">
          The connection to the training is lost ({shown(now.client)}). What it wrote is all here. If it still runs, it
          comes back by itself; it has gone on by itself if it was paused.
        </div>
      )}
    </>
  );
}

/** Whose numbers are shown; a list when there are too many ranks for a row of buttons. */
function Rank({ all }: { all: readonly number[] }): JSX.Element {
  return (
    <span class="rank-choice">
      <span class="muted">rank</span>
      {all.length > MOST_RANKS ? (
        <select
          aria-label="Rank"
          value={rank.value}
          onChange={(event) => go({ rank: Number(event.currentTarget.value) })}
        >
          {all.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      ) : (
        <span class="segments" role="group" aria-label="Rank">
          {all.map((one) => (
            <a
              key={one}
              class={one === rank.value ? "on" : ""}
              aria-current={one === rank.value}
              {...follow({ rank: one })}
            >
              {one}
            </a>
          ))}
        </span>
      )}
    </span>
  );
}

function Controls(): JSX.Element {
  const now = control.value!;
  const paused = now.state === "paused" || now.state === "waiting";
  const stopping = now.state === "stopping";
  const node = route.value.node;
  return (
    <div class="controls" role="toolbar" aria-label="Training control">
      <button
        class="primary"
        disabled={stopping || now.state === "running"}
        title="Continue (c)"
        onClick={() => void drive({ do: "continue" })}
      >
        <Icon name="play" /> Continue
      </button>
      <button
        disabled={stopping || now.state === "paused" || now.state === "pausing"}
        title="Pause (Space)"
        onClick={() => void drive({ do: "pause", after: -1 })}
      >
        <Icon name="pause" /> Pause
      </button>
      <span class="joined">
        <button
          disabled={!paused}
          title="Run this many steps (s)"
          onClick={() => void drive({ do: "step", count: stepCount.value })}
        >
          <Icon name="step" /> Step
        </button>
        <input
          type="number"
          aria-label="How many steps"
          min="1"
          max="2147483647"
          value={stepCount.value}
          onInput={(event) => (stepCount.value = Math.max(1, Math.floor(Number(event.currentTarget.value) || 1)))}
        />
      </span>
      <button disabled={!paused} title="Run to the next node (i)" onClick={() => void drive({ do: "next_node" })}>
        <Icon name="node" /> Next node
      </button>
      <button
        disabled={!paused || node === null}
        title={node === null ? "Select a node first" : `Run to ${nodeName(node)}`}
        onClick={() => node !== null && void drive({ do: "run_to_node", node })}
      >
        Run to node
      </button>
      {now.node !== null && (
        <a class="button" {...follow({ node: now.node })} title="Show the node at which the training is paused">
          Current node
        </a>
      )}
      <button class="danger" disabled={stopping} onClick={() => (dialog.value = "terminate")}>
        <Icon name="stop" /> Terminate
      </button>
      <span class="grow" />
      <span class="muted ellipsis client" title="Host and process of the training, and its device">
        {shown(now.client)}
        {(now.device || summary.value?.devices.join(", ")) &&
          ` · ${shown(now.device || summary.value!.devices.join(", "))}`}
      </span>
    </div>
  );
}
