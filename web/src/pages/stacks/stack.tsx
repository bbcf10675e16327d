// A stack: the user's own lines, with those of libraries folded between them.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { go } from "../../route";
import { count, shown } from "../../text";
import type { StackRow } from "../../types";

const unfolded = signal<ReadonlySet<string>>(new Set());

type Part = { rows: StackRow[]; user: boolean };

function parts(rows: readonly StackRow[]): Part[] {
  const list: Part[] = [];
  for (const row of rows) {
    const last = list[list.length - 1];
    if (last && last.user === row.user && !row.user) last.rows.push(row);
    else list.push({ rows: [row], user: row.user });
  }
  return list;
}

export function Stack({ rows, most }: { rows: readonly StackRow[]; most?: number }): JSX.Element {
  if (rows.length === 0) return <p class="muted small">No line of your own code is known for it.</p>;
  const list = parts(rows);
  const shownParts = most === undefined ? list : list.slice(0, most);
  return (
    <ol class="stack" aria-label="Stack, innermost line first">
      {shownParts.map((part) => {
        const key = part.rows.map((row) => row.frame).join(" ");
        if (part.user) return <Line key={key} row={part.rows[0]!} />;
        const open = unfolded.value.has(key);
        return (
          <li key={key} class="library">
            <button
              class="link small muted"
              aria-expanded={open}
              onClick={() => {
                const next = new Set(unfolded.value);
                if (open) next.delete(key);
                else next.add(key);
                unfolded.value = next;
              }}
            >
              {open ? "▾" : "▸"} {count(part.rows.length, "line")} of libraries
            </button>
            {open && (
              <ol>
                {part.rows.map((row) => (
                  <Line key={row.frame} row={row} />
                ))}
              </ol>
            )}
          </li>
        );
      })}
      {most !== undefined && list.length > most && (
        <li>
          <button class="link small act" onClick={() => go({ tab: "stacks", line: null })}>
            the whole stack
          </button>
        </li>
      )}
    </ol>
  );
}

function Line({ row }: { row: StackRow }): JSX.Element {
  const place = (
    <>
      <span class="name">
        {shown(row.file, 200)}:{row.line}
      </span>{" "}
      <span class="muted small">{shown(row.function, 80)}</span>
    </>
  );
  return (
    <li class={row.user ? "frame" : "frame foreign"}>
      {row.user ? (
        <button
          class="link"
          title="Show this line and the operators it has made"
          onClick={() => go({ tab: "stacks", line: String(row.frame) })}
        >
          {place}
        </button>
      ) : (
        <span>{place}</span>
      )}
      <code class="frame-code ellipsis">{shown(row.code, 200)}</code>
    </li>
  );
}
