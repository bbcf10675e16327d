"""The comparison with other tools: rules that are written again fire on their example, and rows not run stay."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS = ("weights", "gradients", "inputs", "outputs", "relu_input", "relu_output", "tanh_input", "sigmoid_input")
NORMAL = torch.linspace(-1.0, 1.0, 64).reshape(8, 8)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, BENCHMARKS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fired(steps: list[tuple[dict[str, Any], float]]) -> set[str]:
    """The rules that fire over these steps; each is a tensor by collection, and the loss."""
    said: set[str] = set()
    rules = load("fault_tools/sagemaker.py").Rules(lambda rule, tensor, what: said.add(rule))
    for number, (tensors, loss) in enumerate(steps):
        rules.step(number, {kind: {"a": tensors[kind]} if kind in tensors else {} for kind in KINDS}, loss)
    return said


@pytest.mark.parametrize(
    ("rule", "kind", "bad", "good"),
    [
        ("VanishingGradient", "gradients", NORMAL * 1e-8, NORMAL * 1e-5),
        ("ExplodingTensor", "outputs", NORMAL / 0, NORMAL),
        ("AllZero", "outputs", NORMAL * 0, NORMAL * torch.eye(8)),
        ("DeadRelu", "relu_output", NORMAL.relu() * (torch.arange(8) < 3), NORMAL.relu() * (torch.arange(8) < 5)),
        ("SaturatedActivation", "tanh_input", NORMAL + 11, NORMAL + 9),
        ("SaturatedActivation", "sigmoid_input", NORMAL - 25, NORMAL - 11),
        ("CheckInputImages", "inputs", torch.full((500, 3, 2, 2), 0.5), torch.full((500, 3, 2, 2), 0.1)),
    ],
)
def test_a_rule_about_one_tensor_fires_on_the_bad_and_not_on_the_good(
    rule: str, kind: str, bad: Any, good: Any
) -> None:
    assert rule in fired([({kind: bad}, 1.0)])
    assert rule not in fired([({kind: good}, 1.0)])


@pytest.mark.parametrize(("factor", "rule"), [(1.0, True), (1.001, False), (2.0, False), (20.0, True)])
def test_weights_that_stand_still_or_leap_are_told(factor: float, rule: bool) -> None:
    assert ("WeightUpdateRatio" in fired([({"weights": NORMAL}, 1.0), ({"weights": NORMAL * factor}, 0.9)])) is rule


def test_losses_that_rise_or_stand_still_are_told() -> None:
    falling = [({}, 1.0 - step / 20) for step in range(12)]
    assert fired(falling) == set()
    assert "LossNotDecreasing" in fired([({}, 1.0 + step / 20) for step in range(12)])
    assert "UnchangedTensor" in fired([({}, 1.0)] * 3)


def test_rows_of_tools_that_were_not_run_stay_and_tensight_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    tools = load("fault_tools.py")
    monkeypatch.delitem(sys.modules, "page_tables", raising=False)
    new = ModuleType("new")
    new.TITLE = "new"  # type: ignore[attr-defined]
    head = "| tool | programs | detected | named | located | named and located | false alarm |\n| --- |\n"
    old = (
        head
        + "| old | 30 | 7 | 0 | 2 | 0 | 0 |\n| new | 9 | 9 | 9 | 9 | 9 | 9 |\n| **tensight** | 30 | 1 | 1 | 1 | 1 | 0 |"
    )
    text = tools.table([new], [], {("new", "a"): ["detected", "named"], ("new", "b"): ["false alarm"]}, old)
    assert text.splitlines()[2:] == [
        "| old | 30 | 7 | 0 | 2 | 0 | 0 |",
        "| new | 2 | 1 | 1 | 0 | 0 | 1 |",
        "| **tensight** | 30 | 1 | 1 | 1 | 1 | 0 |",
    ]
