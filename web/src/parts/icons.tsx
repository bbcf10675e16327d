// A few small drawings; each stands beside a word or has a label.

import type { JSX } from "preact";

const PATHS = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
  step: "M3 2.5v11l7-5.5zM11.5 2.5h2v11h-2z",
  node: "M2 8h6M6 5l3 3-3 3M11 8a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  stop: "M3 3h10v10H3z",
  cross: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  plus: "M8 3v10M3 8h10",
  edit: "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  left: "M10 3.5L5.5 8l4.5 4.5",
  check: "M3 8.5l3.5 3.5L13 4.5",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM6 8a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  curve: "M2 12.5l3.5-5 3 3 5-7",
  light:
    "M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.5 1.5M11.5 11.5L13 13M13 3l-1.5 1.5M4.5 11.5L3 13",
  dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  mute: "M2 6v4h2.5L8 13V3L4.5 6zM11 6l3.5 4M14.5 6L11 10",
  bin: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.6 9h6.8l.6-9",
} as const;

const FILLED = new Set<string>(["play", "pause", "step", "stop"]);

export function Icon({ name }: { name: keyof typeof PATHS }): JSX.Element {
  return (
    <svg class={FILLED.has(name) ? "icon filled" : "icon"} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
