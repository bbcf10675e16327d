"""Runs the Python of the documentation: `python -m tests.trust.pages FOLDER`, with the pages in FOLDER/pages.json.

A page shows what matters and leaves out the network, the data and the run it speaks of. They are put in its names here,
and what cannot be here (a bucket, a folder of its own) is put in place of what the page says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tensight
from tensight.tuning.values import VALUES

TRAIN = """
import torch
from tests.trust.pages import Net, names
values = names()
for step in range(6):
    for x, y in values["loader"]:
        loss = values["loss_fn"](values["net"](x), y)
        values["optimizer"].zero_grad(); loss.backward(); values["optimizer"].step()
"""

# what a page says → what there is here
STANDS_FOR = {
    "/data/dump": "dump",
    "s3://bucket/runs/lenet": "runs/train-1",
    "jobs=8": "jobs=1",
    "step=153": "step=3",
    'nodes("encoder.*").outputs(step=range(100, 153))': 'nodes("encoder.*").outputs(step=range(2, 5))',
    '"layer1").tensors(step=5, slot="output")': '"encoder").tensors(step=2, slot="output")',
    '"self.fc(x)"': '"self.encoder(x)"',
    '"layer1/MatMul"': '"encoder.0"',
}


class Net(nn.Module):
    """A small network with the names that pages use."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def names() -> dict[str, Any]:
    """What a page takes for granted."""
    torch.manual_seed(0)
    net = Net()
    loader = DataLoader(TensorDataset(torch.randn(16, 6), torch.randint(0, 2, (16,))), batch_size=8)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = next(iter(loader))

    def train() -> None:
        for inputs, targets in [*loader, *loader]:
            optimizer.zero_grad()
            loss_fn(net(inputs), targets).backward()
            optimizer.step()

    def predict(images: Any) -> Any:
        return net(torch.as_tensor(images)).detach().numpy()

    def accuracy(outputs: Any, labels: Any) -> float:
        return float((np.argmax(outputs, 1) == labels).mean())

    found: dict[str, Any] = {
        "tensight": tensight,
        **dict.fromkeys(("net", "model", "network", "port"), net),
        **dict.fromkeys(("loader", "data", "train_data", "test_data"), loader),
        **dict.fromkeys(("prepare_torch", "prepare_mindspore"), lambda images: images),
        **dict.fromkeys(("run_torch", "run_mindspore"), predict),
        **dict.fromkeys(("accuracy", "accuracy_ported"), accuracy),
        "loss_fn": loss_fn,
        "optimizer": optimizer,
        "train": train,
        "x": x,
        "y": y,
        "batch": (x, y),
        "images": x.numpy(),
        "labels": y.numpy(),
        "loss": torch.tensor(0.5),
        "callbacks": [],
    }
    found["z"] = net.encoder(x)
    return found


def main(folder: Path) -> None:
    pages: dict[str, list[str]] = json.loads((folder / "pages.json").read_text(encoding="utf-8"))
    os.chdir(folder)
    record()
    said = {page: trouble(page, pieces) for page, pieces in pages.items()}
    (folder / "said.json").write_text(json.dumps(said), encoding="utf-8")


def record() -> None:
    """A run under each name that pages use, with the tensors of its first steps, and a batch."""
    Path("train.py").write_text(TRAIN, encoding="utf-8")
    words = ["run", "--no-page", "--run-dir", "runs/train-1", "--steps", "0-5", "--budget", "100", "train.py"]
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    subprocess.run([sys.executable, "-m", "tensight", *words], check=True, timeout=400, env=environ)
    for name in ("torch", "a", "b", "big", "lenet-1"):
        os.symlink("train-1", f"runs/{name}")
    np.savez("batch.npz", x=np.zeros((8, 6), np.float32))


def trouble(page: str, pieces: list[str]) -> str:
    space = {**names(), "__name__": "page"}
    if "tensight.tuning" in "".join(pieces):
        space["accuracy"] = 0.5
        os.environ[VALUES] = '{"params": {"lr": 0.01}}'  # a trial of a search
    for text in pieces:
        for said, here in STANDS_FOR.items():
            text = text.replace(said, here)
        if "run." in text and "run =" not in text:
            space.setdefault("run", tensight.open("runs/train-1"))
        try:
            exec(compile(text, page, "exec"), space)
        except Exception:
            return f"{text}\n{traceback.format_exc()}"
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
