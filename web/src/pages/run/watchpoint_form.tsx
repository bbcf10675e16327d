// The form for a watchpoint, made from what the condition says about itself.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Modal } from "../../parts/small";
import { at, get, post, put, Refused } from "../../net";
import { route } from "../../route";
import { conditions, dialog, nodes, reload, say } from "../../state";
import { count, shown } from "../../text";
import type { ConditionForm, Matching, SettingForm, Watchpoint } from "../../types";
import { editing } from "./watchpoints";

const GROUPS: [title: string, codes: RegExp][] = [
  ["Tensors", /^(T|O)/],
  ["Weights", /^W/],
  ["Activations", /^A/],
  ["Gradients", /^G/],
  ["More", /./],
];
const error = signal("");

export function WatchpointForm(): JSX.Element {
  const given = editing.value ?? {};
  const [code, setCode] = useState(given.condition ?? "TO");
  const [settings, setSettings] = useState<Record<string, string>>(() => asText(given.parameters));
  const [on, setOn] = useState(given.on ?? "*");
  const [expression, setExpression] = useState(given.expression ?? "");
  const [name, setName] = useState(given.name ?? "");
  const [after, setAfter] = useState(String(given.after ?? 0));
  const [every, setEvery] = useState(String(given.every ?? 1));
  const [most, setMost] = useState(String(given.at_most ?? 0));
  const [row, setRow] = useState(String(given.in_a_row ?? 1));
  const [action, setAction] = useState<NonNullable<Watchpoint["action"]>>(given.action ?? "");
  const [matching, setMatching] = useState<Matching | string | null>(null);
  const condition = conditions.value.find((one) => one.code === code);
  const isNew = given.id === undefined;
  useEffect(() => {
    error.value = "";
  }, []);
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(() => {
      get<Matching>(at(route.peek().run!, "matching", { on: on.trim(), condition: code }))
        .then((got) => wanted && setMatching(got))
        .catch((refused: unknown) => wanted && setMatching(refused instanceof Refused ? refused.message : ""));
    }, 150);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [on, code]);

  const save = async (): Promise<void> => {
    const parameters: Record<string, number> = {};
    for (const one of condition?.settings ?? []) {
      const text = (settings[one.name] ?? "").trim();
      if (text === "") continue;
      const number = Number(text.replace(",", "."));
      if (!Number.isFinite(number)) {
        error.value = `${one.help}: ${text} is not a number.`;
        return;
      }
      parameters[one.name] = number;
    }
    const point: Watchpoint = {
      id: given.id ?? 0,
      condition: code,
      parameters,
      on: on.trim() || "*",
      name: name.trim(),
      recommended: given.recommended ?? false,
      enabled: given.enabled ?? true,
      after: whole(after, 0),
      every: whole(every, 1),
      at_most: whole(most, 0),
      in_a_row: whole(row, 1),
      action,
      expression: code === "EXPR" ? expression.trim() : "",
    };
    try {
      const base = at(route.peek().run!, "watchpoints");
      if (isNew) await post(base, point);
      else await put(`${base}/${given.id}`, point);
    } catch (refused) {
      error.value = refused instanceof Refused ? refused.message : String(refused);
      return;
    }
    say(isNew ? "Watching from the next step on." : "Changed.");
    dialog.value = null;
    await reload();
  };

  return (
    <Modal title={isNew ? "New watchpoint" : "Change watchpoint"} close={() => (dialog.value = null)} wide>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label class="field">
          <span>Condition</span>
          <select
            name="condition"
            value={code}
            onChange={(event) => {
              setCode(event.currentTarget.value);
              setSettings({});
            }}
          >
            {grouped(conditions.value).map(([title, list]) => (
              <optgroup key={title} label={title}>
                {list.map((one) => (
                  <option key={one.code} value={one.code}>
                    {one.code} · {one.title}
                  </option>
                ))}
              </optgroup>
            ))}
          </select>
        </label>
        {condition && <p class="hint">{condition.finds}</p>}
        {code === "EXPR" && (
          <label class="field">
            <span>Expression over statistics</span>
            <input
              name="expression"
              class="mono"
              placeholder="max > 3 * median(max, 100)"
              value={expression}
              onInput={(event) => setExpression(event.currentTarget.value)}
            />
          </label>
        )}
        {condition && condition.settings.length > 0 && (
          <fieldset class="settings">
            <legend>
              {condition.settings.length === 1
                ? "Threshold"
                : condition.one_of.length > 0
                  ? "Thresholds: give one or more; it hits when any holds"
                  : "Thresholds"}
            </legend>
            {condition.settings.map((one) => (
              <SettingField
                key={one.name}
                of={one}
                text={settings[one.name]}
                set={(text) => setSettings({ ...settings, [one.name]: text })}
              />
            ))}
          </fieldset>
        )}
        <label class="field">
          <span>On which tensors</span>
          <input
            name="on"
            class="mono"
            list="selectors"
            value={on}
            onInput={(event) => setOn(event.currentTarget.value)}
          />
          <datalist id="selectors">
            {suggestions().map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </label>
        <p class={typeof matching === "string" ? "hint bad" : "hint"} role="status">
          {matching === null
            ? "…"
            : typeof matching === "string"
              ? matching
              : `${count(matching.count, "tensor")} now${
                  matching.count > 0
                    ? `: ${matching.names
                        .slice(0, 3)
                        .map((one) => shown(one, 60))
                        .join(", ")}${matching.count > 3 ? ", …" : ""}`
                    : "; it also watches those that come later"
                }`}
        </p>
        <details
          class="more"
          open={
            !isNew && (after !== "0" || every !== "1" || most !== "0" || row !== "1" || action !== "" || name !== "")
          }
        >
          <summary>Limits, action, name</summary>
          <div class="pair">
            <Whole label="From step on" name="after" text={after} set={setAfter} min={0} />
            <Whole label="Every so many steps" name="every" text={every} set={setEvery} min={1} />
            <Whole label="At most so many hits (0: all)" name="at_most" text={most} set={setMost} min={0} />
            <Whole label="Only after so many steps in a row" name="in_a_row" text={row} set={setRow} min={1} />
            <label class="field">
              <span>When it hits</span>
              <select
                name="action"
                value={action}
                onChange={(event) => setAction(event.currentTarget.value as typeof action)}
              >
                <option value="">as the run was told (pause while a page looks on)</option>
                <option value="pause">pause</option>
                <option value="log">only list it</option>
                <option value="dump">keep all tensors of the next step</option>
                <option value="pdb">break into pdb, in the script's terminal</option>
              </select>
            </label>
            <label class="field">
              <span>Name</span>
              <input name="name" maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
            </label>
          </div>
        </details>
        {error.value && (
          <p class="form-error" role="alert">
            {error.value}
          </p>
        )}
        <footer class="modal-foot">
          <button type="button" onClick={() => (dialog.value = null)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            {isNew ? "Watch" : "Save"}
          </button>
        </footer>
      </form>
    </Modal>
  );
}

function SettingField({
  of,
  text,
  set,
}: {
  of: SettingForm;
  text: string | undefined;
  set: (text: string) => void;
}): JSX.Element {
  const usual = of.default === null ? "" : String(of.default);
  return (
    <label class="setting">
      <span>
        {of.help} <code class="muted small">{of.name}</code>
      </span>
      <input
        name={of.name}
        inputMode="decimal"
        autocomplete="off"
        placeholder={usual || "off"}
        title={`${of.allowed}${usual ? `; ${usual} unless given` : ""}`}
        value={text ?? ""}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

function Whole(props: {
  label: string;
  name: string;
  text: string;
  set: (text: string) => void;
  min: number;
}): JSX.Element {
  return (
    <label class="field">
      <span>{props.label}</span>
      <input
        type="number"
        name={props.name}
        min={props.min}
        step="1"
        value={props.text}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </label>
  );
}

function grouped(all: readonly ConditionForm[]): [string, ConditionForm[]][] {
  const left = new Set(all);
  return GROUPS.map(([title, codes]): [string, ConditionForm[]] => {
    const list = [...left].filter((one) => codes.test(one.code) && (title === "More" || one.code.length <= 3));
    list.forEach((one) => left.delete(one));
    return [title, list];
  }).filter(([, list]) => list.length > 0);
}

function suggestions(): string[] {
  const scopes = [...new Set((nodes.peek() ?? []).map((row) => row.path.split(".").slice(0, 2).join(".")))]
    .filter(Boolean)
    .slice(0, 40);
  return [
    "*",
    "weight:*",
    "gradient:*",
    "activation:*",
    "output:*",
    "gradient:activation:*",
    "loss",
    "input:*",
    ...scopes,
  ];
}

function whole(text: string, least: number): number {
  const number = Math.floor(Number(text));
  return Number.isFinite(number) ? Math.max(least, number) : least;
}

function asText(parameters: Record<string, unknown> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters ?? {}).map(([name, set]) => [name, String(set)]));
}
