// The live connection: it only says that something is new. After a break it is made again, and nothing is missed,
// because the page asks for what came after the last number it has.

import { effect } from "@preact/signals";
import { get, Refused } from "./net";
import { route } from "./route";
import { connectedRuns, forget, online, summary, take, trouble } from "./state";
import type { LiveNews, Summary } from "./types";

let socket: WebSocket | null = null;
let instance = "";
let pause = 500;

function tell(): void {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ run: route.peek().run ?? "" }));
}

function connect(): void {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/live`);
  socket.onopen = () => {
    pause = 500;
    online.value = true;
    tell();
  };
  socket.onmessage = (event: MessageEvent<string>) => {
    const message = JSON.parse(event.data) as LiveNews | { instance: string } | { runs: string[] };
    if ("instance" in message) {
      if (instance && instance !== message.instance) forget(); // another server counts anew
      instance = message.instance;
    } else if ("runs" in message) connectedRuns.value = message.runs;
    else void take(message);
  };
  socket.onclose = () => {
    online.value = false;
    setTimeout(connect, pause);
    pause = Math.min(pause * 2, 5000);
  };
}

export function goLive(): void {
  connect();
  let run = route.peek().run;
  effect(() => {
    const next = route.value.run;
    if (next !== run) {
      run = next;
      forget();
    }
    tell();
    // The first answer must not wait for the connection: a run that cannot be read says so at once.
    if (next !== null && summary.peek() === null) void first(next);
  });
}

async function first(run: string): Promise<void> {
  try {
    const got = await get<Summary>(`/api/runs/${encodeURIComponent(run)}`);
    if (route.peek().run !== run) return;
    await take({ run, sequence: got.sequence, structure: got.structure, about: got.sequence, control: got.control });
  } catch (error) {
    if (route.peek().run === run && error instanceof Refused) trouble.value = error;
  }
}
