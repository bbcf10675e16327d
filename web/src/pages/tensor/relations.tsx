// What stands around the tensor's module: who it reads from and who reads it, with the codes of conditions that hit.

import { signal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { Hops } from "../../parts/small";
import { Refused } from "../../net";
import { route } from "../../route";
import { calm, rank, step } from "../../state";
import { shown } from "../../text";
import type { TensorPage } from "../../types";
import { Canvas } from "../graph/canvas";
import { Drawing } from "../graph/drawing";
import { base, nearby, type Placed } from "../graph/state";
import { page } from "./state";

const drawn = signal<{ placed: Placed; cut: boolean; name: string } | null>(null);
const refused = signal("");
const hops = signal(2);
const BACKWARD = new Set(["gradient", "output_gradient", "input_gradient", "operator_gradient"]);

export function RelationsView({ of }: { of: TensorPage }): JSX.Element {
  useSignalEffect(() => {
    const info = page.value?.info;
    const here = base.value;
    const asked = { up: hops.value, down: hops.value, step: step.value < 0 ? null : step.value };
    void rank.value;
    if (!calm.value || !info || here === null || route.value.run === null) return;
    let wanted = true;
    const view = BACKWARD.has(info.kind) ? "backward" : "forward";
    nearby({ ...here, ...asked, view, network: info.network || null, node: info.node || null })
      .then((got) => {
        if (!wanted) return;
        drawn.value = { ...got, name: `${info.id} ${asked.up}` };
        refused.value = "";
      })
      .catch((error: unknown) => {
        if (!wanted) return;
        drawn.value = null;
        refused.value = error instanceof Refused ? error.message : String(error);
      });
    return () => {
      wanted = false;
    };
  });
  const now = drawn.value;
  return (
    <section class="tensor-part relations" aria-label="Relations">
      <div class="tensor-tools">
        <h3>{BACKWARD.has(of.info.kind) ? "Around it, in the backward pass" : "Around it"}</h3>
        <span class="grow" />
        <Hops of={hops} label="Hops of the relations" />
      </div>
      {now === null ? (
        <p class="muted small">
          {refused.value ? shown(refused.value, 300) : base.value === null ? "The structure of this run is not recorded." : "Loading…"}
        </p>
      ) : (
        <div class="relation-sheet">
          <Canvas width={now.placed.width} height={now.placed.height} name={now.name} focus={null} small>
            <Drawing of={now.placed} flat />
          </Canvas>
        </div>
      )}
      {now?.cut && <p class="muted small">There is more around it than is drawn.</p>}
    </section>
  );
}
