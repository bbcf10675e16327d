// The keys, and the question before a training is ended.

import type { JSX } from "preact";
import { Modal } from "../../parts/small";
import { dialog, drive } from "../../state";

const KEYS: [key: string, does: string][] = [
  ["c", "continue"],
  ["Space", "pause"],
  ["s", "run the chosen number of steps"],
  ["i", "run to the next node"],
  ["n", "next hit"],
  ["p", "previous hit"],
  ["/", "search modules"],
  ["← →", "step shown, on the slider"],
  ["?", "this help"],
];

export function Help(): JSX.Element {
  return (
    <Modal title="Keys" close={() => (dialog.value = null)}>
      <table class="keys">
        <tbody>
          {KEYS.map(([key, does]) => (
            <tr key={key}>
              <td>
                <kbd>{key}</kbd>
              </td>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hint">
        A hit is a condition that held. A finding is a cause Tensight stands behind. Steps count from 0. Training takes
        commands at the end of a step.
      </p>
    </Modal>
  );
}

export function AskTerminate(): JSX.Element {
  return (
    <Modal title="Terminate the training?" close={() => (dialog.value = null)}>
      <p>The script ends cleanly after the step that runs now. The run stays readable.</p>
      <footer class="modal-foot">
        <button onClick={() => (dialog.value = null)}>Keep it running</button>
        <button
          class="danger solid"
          onClick={() => {
            dialog.value = null;
            void drive({ do: "terminate" });
          }}
        >
          Terminate
        </button>
      </footer>
    </Modal>
  );
}
