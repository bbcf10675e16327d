"""A LeNet, a ResNet, an LSTM and a transformer, ported to MindSpore: clean ports agree, mistakes are named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
import torch

import tensight
from tests.compare.ported import PAIRS, batch, original, port, record, record_port

FULL = os.environ.get("TENSIGHT_FULL") == "1"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("originals")
    decaying = folder / "decaying"
    decaying.mkdir()
    return {**{name: record(folder, name) for name in PAIRS}, "decaying": record(decaying, "lstm", decay=0.1)}


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("references")
    for name in PAIRS:
        x, y = (torch.tensor(array) for array in batch(name))
        tensight.reference(
            folder / name,
            original(name),
            x,
            loss=lambda out, y=y: torch.nn.functional.cross_entropy(out, y.long()),
        )
    return {name: folder / name for name in PAIRS}


@pytest.mark.parametrize("name", PAIRS)
def test_a_clean_port_has_the_weights_and_computes_the_same(
    originals: dict[str, tuple[Path, Path]], references: dict[str, Path], tmp_path: Path, name: str
) -> None:
    run, checkpoint = originals[name]
    model = port(name, checkpoint, tmp_path)
    state = torch.load(checkpoint, weights_only=True)
    for parameter in model.get_parameters():
        slot = parameter.name.rpartition(".")[2]
        if slot in ("weight", "bias"):
            assert np.array_equal(parameter.asnumpy(), state[parameter.name].numpy()), parameter.name
    labels = mindspore.Tensor(batch(name)[1])
    loss = mindspore.nn.CrossEntropyLoss()
    alone = tensight.reference(references[name]).compare(model, loss=lambda out: loss(out, labels))
    assert (alone.verdict, alone.faults) == ("rounding", [])
    assert alone.loss.b == pytest.approx(alone.loss.a, rel=1e-5)
    found = tensight.compare(run, record_port(tmp_path / "run", name, model))
    assert found.verdict == "rounding"
    assert found.faults == []
    assert found.loss.verdict == "none"


def transposed(model: Any) -> None:
    parameter = model.layers[1].attn.out.weight
    parameter.set_data(mindspore.Tensor(parameter.asnumpy().T.copy()))


def gates(model: Any) -> None:
    parameter = next(one for one in model.get_parameters() if one.name.endswith("weight_hh_l0"))
    i, f, g, o = np.split(parameter.asnumpy(), 4)
    parameter.set_data(mindspore.Tensor(np.concatenate([i, g, f, o])))


MISTAKES: list[tuple[str, str, dict[str, Any], Any, dict[str, Any], str, str, str]] = [
    # network, mistake, how the port is made, what is done to it, how it is trained, module, phase, word of the cause
    ("lenet", "missing bias", {"bias": False}, None, {}, "fc1", "forward", "bias is missing in B"),
    ("lenet", "slope", {"slope": 0.2}, None, {}, "act", "forward", "slope"),
    ("lenet", "pooling", {"pool": "avg"}, None, {}, "pool1", "forward", "AvgPool2d in B"),
    ("lenet", "input scaling", {}, None, {"scale": 1 / 255}, "", "input", "0.003922 times"),
    ("lenet", "channel order", {}, None, {"flip": True}, "c1", "forward", "channels"),
    ("lenet", "mean against sum", {}, None, {"reduction": "sum"}, "", "forward", "8 times"),
    ("resnet", "pad mode", {"pad": "same"}, None, {}, "block2.conv1", "forward", "pad"),
    ("resnet", "momentum", {"momentum": 0.1}, None, {}, "block1.bn1", "update", "momentum"),
    ("resnet", "running statistics", {"frozen": True}, None, {}, "bn", "forward", "statistics"),
    ("lstm", "gate order", {}, gates, {}, "lstm", "forward", ""),
    ("lstm", "first position", {"first": True}, None, {}, "", "forward", ""),
    ("transformer", "eps", {"eps": 1e-7}, None, {}, "layers.1.ln1", "forward", "eps"),
    ("transformer", "gelu", {"approximate": True}, None, {}, "layers.1.act", "forward", "GELU"),
    ("transformer", "axis", {"axis": 1}, None, {}, "layers.1.attn.softmax", "forward", "axis"),
    ("transformer", "scale", {"scaled": False}, None, {}, "layers.1.attn", "forward", "scale"),
    ("transformer", "dropout", {"drop": 0.3}, None, {}, "layers.1.drop", "forward", "dropout"),
    ("transformer", "residual", {"residual": False}, None, {}, "layers.1", "forward", ""),
    ("transformer", "transposed weight", {}, transposed, {}, "layers.1.attn.out", "forward", "transposed"),
    ("lstm", "decay form", {}, None, {"decay": 0.1}, "emb", "update", "weight_decay"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mistake", "how", "change", "training", "module", "phase", "cause"),
    MISTAKES,
    ids=[row[1] for row in MISTAKES],
)
def test_a_mistake_is_found_in_its_module(
    originals: dict[str, tuple[Path, Path]],
    references: dict[str, Path],
    tmp_path: Path,
    name: str,
    mistake: str,
    how: dict[str, Any],
    change: Any,
    training: dict[str, Any],
    module: str,
    phase: str,
    cause: str,
) -> None:
    run, checkpoint = originals["decaying" if "decay" in training else name]
    model = port(name, checkpoint, tmp_path, **how)
    if change is not None:
        change(model)
    if phase == "forward" and not training:  # the reference sees one forward pass, and values one by one
        alone = tensight.reference(references[name]).compare(model).first_divergence
        assert alone is not None
        assert alone.module == module
        assert cause in alone.likely_cause
        if name == "transformer" and mistake != "eps" and not FULL:
            return  # recording this one takes a while
    first = tensight.compare(run, record_port(tmp_path / "run", name, model, steps=1, **training)).first_divergence
    assert first is not None
    assert (first.module, first.phase, first.step) == (module, phase, 0)
    assert cause in first.likely_cause


def test_the_operator_is_named_where_two_runs_of_mindspore_recorded_operators(
    originals: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    _, checkpoint = originals["lenet"]
    a, b = (
        record_port(tmp_path / name, "lenet", port("lenet", checkpoint, tmp_path, **how), steps=1, level="op")
        for name, how in (("a", {}), ("b", {"slope": 0.2}))
    )
    first = tensight.compare(a, b).first_divergence
    assert first is not None
    assert (first.module, first.phase) == ("act", "forward")
    assert first.op == "ops.mul"  # of which MindSpore makes a LeakyReLU
    assert (first.file or "").endswith("ported.py")
