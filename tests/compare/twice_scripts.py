"""Scripts whose randomness is removed, or left in one place. `turn()` differs in each run, as the clock would.

Run as a program it tries them all and prints what `tensight twice` says. The runs are forked from this process, which
has torch imported, since starting Python anew for each would take most of the time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

HEAD = """
import os, random, sys
import numpy as np
import torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.nn import functional as F

def turn():
    place = Path(__file__).with_suffix(".turn")
    number = int(place.read_text()) + 1 if place.exists() else 1
    place.write_text(str(number))
    return number

class Noisy(Dataset):
    def __init__(self, draw): self.draw = draw
    def __len__(self): return 12
    def __getitem__(self, place): return torch.full((4,), float(place)) + self.draw(), torch.zeros(1)

def train(model, batches, lr=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()

def net(*inside):
    return nn.Sequential(nn.Linear(4, 8), *inside, nn.Tanh(), nn.Linear(8, 1))

torch.manual_seed(0); random.seed(0); np.random.seed(0)
DATA = TensorDataset(torch.randn(12, 4), torch.randn(12, 1))
"""

# name → (the script after its head, the kind of its randomness, '' for none)
SCRIPTS = {
    "weights": ("torch.manual_seed(turn())\nmodel = net()\ntrain(model, [DATA[:4]] * 2)", "init"),
    "shuffle": (
        "model = net()\ntorch.manual_seed(turn())\ntrain(model, DataLoader(DATA, batch_size=4, shuffle=True))",
        "shuffle",
    ),
    "dropout": ("model = net(nn.Dropout(0.5))\ntorch.manual_seed(turn())\ntrain(model, [DATA[:4]] * 2)", "dropout"),
    "dropout as a function": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.fc = nn.Linear(4, 1)\n"
        "    def forward(self, x): return self.fc(F.dropout(x, 0.5))\n"
        "model = Net()\ntorch.manual_seed(turn())\ntrain(model, [DATA[:4]] * 2)",
        "dropout",
    ),
    "augmentation": (
        "rng = np.random.RandomState(turn())\nmodel = net()\n"
        "train(model, DataLoader(Noisy(lambda: float(rng.rand())), batch_size=4))",
        "data",
    ),
    "data made in the script": (
        "model = net()\ntorch.manual_seed(turn())\ntrain(model, [(torch.randn(4, 4), torch.zeros(4, 1))])",
        "data",
    ),
    "workers": (
        "number = turn()\nmodel = net()\ndef draw():\n    return float(np.random.RandomState(number).rand())\n"
        "train(model, DataLoader(Noisy(draw), batch_size=4, num_workers=1))",
        "worker_seed",
    ),
    "noise in the model": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.fc = nn.Linear(4, 1)\n"
        "    def forward(self, x): return self.fc(x + 0.1 * torch.randn_like(x))\n"
        "model = Net()\ntorch.manual_seed(turn())\ntrain(model, [DATA[:4]] * 2)",
        "random_operator",
    ),
    "learning rate": ("model = net()\ntrain(model, [DATA[:4]] * 2, lr=0.1 * turn())", "setting"),
    "number of steps": ("model = net()\ntrain(model, [DATA[:4]] * (2 + turn()))", "length"),
    "seeded": ("model = net()\ntrain(model, [DATA[:4]] * 3)", ""),
    "seeded shuffle": ("model = net()\ntrain(model, DataLoader(DATA, batch_size=4, shuffle=True))", ""),
    "seeded dropout": ("model = net(nn.Dropout(0.5))\ntrain(model, [DATA[:4]] * 3)", ""),
    "seeded workers": (
        "model = net()\ntrain(model, DataLoader(Noisy(lambda: float(torch.rand(1))), batch_size=4, num_workers=1))",
        "",
    ),
}  # fmt: skip


def main(folder: Path) -> None:
    # imported here, so that every fork has it
    import torch
    import torch._dynamo
    import torch.utils.data

    import tensight.cli.run
    import tensight.frameworks.torch.adapter  # noqa: F401
    from tensight.cli import main as command
    from tensight.cli import twice
    from tensight.runs import open_run
    from tensight.store import Reader

    torch.set_num_threads(1)

    def once(place: Path, words: list[str], steps: int) -> Reader:
        child = os.fork()
        if not child:
            options = ["--no-page", "--no-rewind", "--no-recommended", "--budget", "100", "--max-steps", str(steps)]
            code = 1
            try:
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, 1)
                command(["run", *options, "--run-dir", str(place), *words])
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
            finally:
                os._exit(code)
        os.waitpid(child, 0)
        run = open_run(place)
        return run.rank(min(run.readers))

    twice._once = once
    for number, (name, (body, _)) in enumerate(SCRIPTS.items()):
        script = folder / f"script{number}.py"
        script.write_text(HEAD + body + "\n")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            command(["twice", "--json", str(script)])
        print(json.dumps({"name": name, **json.loads(said.getvalue())}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
