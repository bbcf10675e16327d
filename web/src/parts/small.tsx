// Small things used everywhere.

import type { Signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { exact, value } from "../text";
import type { Int, Num } from "../types";
import { Icon } from "./icons";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** A number that is red when it is not finite, with every digit in its tooltip. */
export function Value({ of, digits }: { of: Num | Int | null | undefined; digits?: number }): JSX.Element {
  const bad = of === "nan" || of === "inf" || of === "-inf";
  return (
    <span class={bad ? "number bad" : "number"} title={exact(of)}>
      {value(of, digits)}
    </span>
  );
}

export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="command">
      <code>{text}</code>
      <button class="quiet" onClick={() => void navigator.clipboard?.writeText(text)}>
        Copy
      </button>
    </div>
  );
}

/** A field for words to look for; `then` is what else changes with them. */
export function SearchField(props: { label: string; words: Signal<string>; hint?: string; then?: () => void }): JSX.Element {
  return (
    <input
      type="search"
      aria-label={props.label}
      placeholder={props.hint ?? "Search"}
      value={props.words.value}
      onInput={(event) => {
        props.words.value = event.currentTarget.value;
        props.then?.();
      }}
    />
  );
}

/** How far around a box of the graph is drawn. */
export function Hops({ of, label }: { of: Signal<number>; label: string }): JSX.Element {
  return (
    <label class="check small">
      hops
      <input
        class="hops"
        type="number"
        min="1"
        max="6"
        aria-label={label}
        value={of.value}
        onInput={(event) => (of.value = Math.min(6, Math.max(1, Number(event.currentTarget.value) || 2)))}
      />
    </label>
  );
}

export function Modal(props: {
  title: string;
  close: () => void;
  wide?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = box.current!;
    if (!element.open) element.showModal();
  }, []);
  return (
    <dialog
      ref={box}
      class={props.wide ? "modal wide" : "modal"}
      aria-label={props.title}
      onClose={props.close}
      onClick={(event) => {
        if (event.target === box.current) box.current?.close();
      }}
    >
      <div class="modal-inside">
        <header class="modal-head">
          <h2>{props.title}</h2>
          <button class="quiet" aria-label="Close" onClick={() => box.current?.close()}>
            <Icon name="cross" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
