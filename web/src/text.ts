// Numbers, times and names as people read them. Names come from the user's program and may hold anything.

import type { Int, Num } from "./types";

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** A name with control and direction characters made visible, and not longer than anybody reads. */
export function shown(name: string, most = 300): string {
  const cut = name.length > most ? `${name.slice(0, most)}… (${name.length} characters)` : name;
  return cut.replace(HIDDEN, (char) => {
    const code = char.codePointAt(0)!;
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** A number off the wire; big integers lose digits here, so show them by `value`. */
export function num(x: Num | Int | null | undefined): number | null {
  if (x === null || x === undefined) return null;
  if (typeof x === "number") return x;
  if (x === "nan") return NaN;
  if (x === "inf") return Infinity;
  if (x === "-inf") return -Infinity;
  return Number(x);
}

/** Six significant digits, or all of an integer; NaN, Inf and -0 are said. */
export function value(x: Num | Int | string | boolean | null | undefined, digits = 6): string {
  if (x === null || x === undefined) return "–";
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (typeof x === "string") {
    if (x === "nan") return "NaN";
    if (x === "inf") return "Inf";
    if (x === "-inf") return "−Inf";
    return shown(x).replace(/^-(?=\d)/, "−");
  }
  if (Number.isNaN(x)) return "NaN";
  if (x === Infinity) return "Inf";
  if (x === -Infinity) return "−Inf";
  if (Object.is(x, -0)) return "−0";
  const size = Math.abs(x);
  let text: string;
  if (Number.isInteger(x) && size < 1e15)
    text = size < 1e6 ? String(x) : x.toLocaleString("en-US").replaceAll(",", "\u202f");
  else if (size >= 1e-3 && size < 1e6) text = String(Number(x.toPrecision(digits)));
  else text = Number(x.toPrecision(digits)).toExponential().replace("e+", "e");
  return text.replaceAll("-", "−");
}

/** The number with every digit there is, for a tooltip. */
export function exact(x: Num | Int | null | undefined): string {
  return x === null || x === undefined ? "" : Object.is(x, -0) ? "-0" : String(x);
}

export const count = (n: number, one: string, many = `${one}s`): string => `${value(n)} ${n === 1 ? one : many}`;

export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1e-3) return `${value(Number((seconds * 1e6).toPrecision(3)))} µs`;
  if (seconds < 1) return `${value(Number((seconds * 1e3).toPrecision(3)))} ms`;
  if (seconds < 120) return `${value(Number(seconds.toPrecision(3)))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function when(seconds: number): string {
  if (!seconds) return "–";
  const date = new Date(seconds * 1000);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

const SIGNS: Record<string, string> = { gt: ">", ge: "≥", lt: "<", le: "≤" };

/** A setting's name in words, and the sign its ending stands for: 'abs_mean_gt' is ['abs mean', '>']. */
export function setting(name: string): [word: string, sign: string] {
  const ending = /^(.+)_(gt|ge|lt|le)$/.exec(name);
  return ending ? [ending[1]!.replaceAll("_", " "), SIGNS[ending[2]!]!] : [shown(name.replaceAll("_", " ")), ""];
}

export const shape = (lengths: readonly number[] | undefined): string =>
  !lengths || lengths.length === 0 ? "scalar" : lengths.join("×");

/** The root module has no name of its own. */
export const nodeName = (path: string): string => (path === "" ? "(whole network)" : shown(path));
