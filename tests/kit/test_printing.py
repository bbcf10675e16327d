"""`tensight.print`, eager, compiled, in MindSpore's graphs, and into a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensight
from tensight.runs.prints import prints, samples
from tests.kit.nets import FRAMEWORKS, training

FORM = """print Tensor x and Tensor y:
Tensor(shape=[2, 1], dtype=Int32, value=
[[1]
 [1]])
Tensor(shape=[2, 2], dtype=Int32, value=
[[1 1]
 [1 1]])
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_strings_and_tensors_are_mixed(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = training(framework)
    x, y = made.tensor(np.ones([2, 1], np.int32)), made.tensor(np.ones([2, 2], np.int32))
    tensight.print("print Tensor x and Tensor y:", x, y)
    assert capsys.readouterr().out == FORM


def test_large_tensors_are_cut_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    tensight.print(torch.arange(5000.0), torch.tensor(float("nan")), torch.ones(1, dtype=torch.bfloat16))
    out = capsys.readouterr().out
    assert "..." in out
    assert "min=0, max=4999, mean=2499.5, nan=0, inf=0)" in out
    assert "Tensor(shape=[], dtype=Float32, value= nan)" in out
    assert "dtype=BFloat16" in out
    assert len(out) < 500


def test_every_nth_call_without_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        tensight.print(number, every=3)
    assert capsys.readouterr().out == "0\n3\n6\n"


def test_a_gradient_passes_and_nothing_changes() -> None:
    import torch

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    tensight.print(y)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_a_value_that_cannot_be_printed_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    tensight.print("before", Broken())
    assert "RuntimeError: no words" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compiled_without_a_break_of_the_graph(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    def function(x: Any) -> Any:
        y = x * 2
        tensight.print("in the middle", y, 3)
        return y.sum()

    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        compiled(x).backward()
    torch._dynamo.reset()
    assert capsys.readouterr().out == 2 * "in the middle\nTensor(shape=[2], dtype=Float32, value=\n[2. 2.])\n3\n"
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4]


GRAPH = """
from tensight import print as early  # before MindSpore
import numpy as np
import mindspore.context as context
import mindspore.nn as nn
from mindspore import Tensor
import tensight

context.set_context(mode=context.GRAPH_MODE)

class PrintDemo(nn.Cell):
    def construct(self, x, y):
        tensight.print('print Tensor x and Tensor y:', x, y)
        early('again', every=2)
        return x

x = Tensor(np.ones([2, 1]).astype(np.int32))
y = Tensor(np.ones([2, 2]).astype(np.int32))
net = PrintDemo()
for _ in range(3):
    output = net(x, y)

class TakenForAnother(nn.Cell):
    def construct(self, x):
        tensight.print('x', x, every=2)
        return x

try:
    TakenForAnother()(x)
except Exception as error:
    import sys
    from tensight.session.crashing import crash_of
    print(crash_of(error)['fix'][0], file=sys.stderr)
"""


def test_inside_a_graph_of_mindspore(tmp_path: Path) -> None:
    (tmp_path / "demo.py").write_text(GRAPH)
    done = subprocess.run([sys.executable, "demo.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout == FORM + "again\n" + FORM + FORM + "again\n"
    assert "from tensight import print as show" in done.stderr


PRINTING = """
import torch, tensight
from tensight.kit import check_batch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = torch.ones(4, 2), torch.tensor([0, 1, 1, 0])
check_batch(data, show=False)
for step in range(5):
    loss = net(data[0]).pow(2).mean()
    tensight.print("loss", loss, every=2)
    loss.backward(); optimizer.step(); optimizer.zero_grad()
"""


def test_a_session_keeps_prints_and_samples_for_the_page(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRINTING)
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--run-dir", "out", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    found = prints(tmp_path / "out")
    assert [record.step for _, record in found] == [0, 2, 4]
    assert done.stdout.count("loss\nTensor(shape=[], dtype=Float32") == 3
    text, tensor = found[0][1].values
    assert (text.text, text.shape, tensor.shape, tensor.dtype) == ("loss", None, (), "float32")
    assert tensor.min == tensor.max == tensor.mean
    assert found[0][1].source is not None
    assert (found[0][1].source.file, found[0][1].source.line) == ("train.py", 11)
    assert [number for number, _ in prints(tmp_path / "out", after=found[0][0])] == [2, 3]
    ((_, batch),) = samples(tmp_path / "out")
    assert batch.shapes == ("float32[4, 2]", "int64[4]")
    assert [sample.label for sample in batch.samples] == ["0", "1", "1", "0"]
