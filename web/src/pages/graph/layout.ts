// Asks the worker for layouts; the same question is answered once.

import type { Ask, Laid } from "./layout_worker";

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, (laid: Laid) => void>();
const known = new Map<string, Promise<Laid>>();
const MOST = 400;

export function lay(question: Omit<Ask, "id">): Promise<Laid> {
  const key = JSON.stringify(question);
  const answer = known.get(key);
  if (answer) return answer;
  if (worker === null) {
    worker = new Worker(new URL("./layout_worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<Laid>) => {
      waiting.get(event.data.id)?.(event.data);
      waiting.delete(event.data.id);
    };
  }
  const id = ++last;
  const made = new Promise<Laid>((done) => waiting.set(id, done));
  worker.postMessage({ ...question, id } satisfies Ask);
  if (known.size >= MOST) known.delete(known.keys().next().value!);
  known.set(key, made);
  return made;
}
