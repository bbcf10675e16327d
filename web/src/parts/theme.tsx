// Light and dark: the system's choice unless the user has chosen here.

import { effect, signal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "./icons";

type Theme = "light" | "dark";
const KEY = "tensight-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function kept(): Theme | null {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : null;
  } catch {
    return null; // storage may be switched off
  }
}

const chosen = signal<Theme | null>(kept());
const systemDark = signal(system.matches);
system.addEventListener("change", (event) => (systemDark.value = event.matches));
export const current = (): Theme => chosen.value ?? (systemDark.value ? "dark" : "light");

effect(() => {
  document.documentElement.dataset["theme"] = current();
});

export function ThemeSwitch(): JSX.Element {
  const next: Theme = current() === "dark" ? "light" : "dark";
  return (
    <button
      class="quiet"
      aria-label={`Switch to ${next} colours`}
      title={`Switch to ${next} colours`}
      onClick={() => {
        chosen.value = next;
        try {
          localStorage.setItem(KEY, next);
        } catch {
          // then it holds until the page is closed
        }
      }}
    >
      <Icon name={next} />
    </button>
  );
}
