// The keys of product: none of them is a browser's own, and none is taken while somebody types.

import { nextHit } from "./pages/run/hits";
import { stepCount } from "./pages/run/header";
import { focusSearch } from "./pages/run/tree";
import { route } from "./route";
import { dialog, drive, isLive } from "./state";

function typing(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    const type = (target as HTMLInputElement).type;
    return !(type === "checkbox" || type === "range") || key === " ";
  }
  // Space presses the button or opens the row that has the focus.
  return key === " " && target.closest("button, a, summary, [role=treeitem]") !== null;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.peek() !== null) return;
  if (route.peek().run === null || typing(event.target, event.key)) return;
  const live = isLive.peek();
  if (event.key === "?") dialog.value = "help";
  else if (event.key === "/") focusSearch();
  else if (event.key === "n") void nextHit(1);
  else if (event.key === "p") void nextHit(-1);
  else if (live && event.key === "c") void drive({ do: "continue" });
  else if (live && event.key === " ") void drive({ do: "pause", after: -1 });
  else if (live && event.key === "s") void drive({ do: "step", count: stepCount.peek() });
  else if (live && event.key === "i") void drive({ do: "next_node" });
  else return;
  event.preventDefault();
});
