"""Hooks by name, on both frameworks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensight
from tensight.errors import SpecError, UsageError
from tensight.kit.backend import array, backend_of
from tests.kit.nets import FRAMEWORKS, Training, training

both = pytest.mark.parametrize("framework", FRAMEWORKS)


def step(made: Training) -> float:
    loss, _ = backend_of(made.network).trainer(made.network, made.loss_fn, made.optimizer).step(made.data[0])
    return loss


def weights(made: Training) -> dict[str, np.ndarray]:
    return backend_of(made.network).state(made.network)


@both
def test_gradients_of_parameters_are_seen_by_name(framework: str) -> None:
    made = training(framework)
    seen: dict[str, tuple[int, ...]] = {}
    hooks = tensight.on_gradient(
        "first.*", lambda name, gradient: seen.update({name: tuple(gradient.shape)}), made.network
    )
    step(made)
    assert seen == {"first.weight": (6, 4), "first.bias": (6,)}
    assert sorted(hooks.names) == ["first.bias", "first.weight"]
    assert hooks.calls == 2


@both
def test_a_gradient_is_changed(framework: str) -> None:
    made, frozen = training(framework), weights(training(framework))
    tensight.on_gradient("gradient:first.weight", lambda gradient: gradient * 0, made.network)
    step(made)
    after = weights(made)
    np.testing.assert_array_equal(after["first.weight"], frozen["first.weight"])
    assert (after["second.weight"] != frozen["second.weight"]).any()


@both
def test_looking_changes_no_bit(framework: str) -> None:
    plain, watched = training(framework), training(framework)
    hooks = [
        tensight.on_gradient("*", lambda gradient: None, watched.network),
        tensight.on_gradient("output_gradient:*", lambda gradient: None, watched.network),
        tensight.on_forward("*", lambda inputs, output: None, watched.network),
        tensight.on_forward_pre("*", lambda inputs: None, watched.network),
        tensight.on_backward("second", lambda grad_input, grad_output: None, watched.network),
    ]
    assert [step(plain) for _ in range(2)] == [step(watched) for _ in range(2)]
    for name, value in weights(plain).items():
        assert value.tobytes() == weights(watched)[name].tobytes()
    assert all(one.calls for one in hooks)


@both
def test_outputs_and_inputs_are_seen_and_changed(framework: str) -> None:
    made = training(framework)
    x = made.data[0][0]
    seen: list[tuple[str, Any]] = []
    with tensight.on_forward_pre("second", lambda name, inputs: seen.append((name, inputs[0].shape)), made.network):
        made.network(x)
    assert [(name, tuple(shape)) for name, shape in seen] == [("second", (8, 6))]
    with tensight.on_forward("act", lambda inputs, output: output * 0, made.network):
        zero = array(made.network(x))
    np.testing.assert_array_equal(zero, 0)
    assert (array(made.network(x)) != 0).any()  # taken off again


@both
def test_the_gradient_of_an_output_is_changed(framework: str) -> None:
    made, before = training(framework), weights(training(framework))
    tensight.on_gradient("output_gradient:act", lambda gradient: gradient * 0, made.network)
    step(made)
    np.testing.assert_array_equal(weights(made)["first.weight"], before["first.weight"])


@both
def test_removed_hooks_are_called_no_more(framework: str) -> None:
    made = training(framework)
    hooks = [
        tensight.on_gradient("*", lambda gradient: None, made.network),
        tensight.on_gradient("output_gradient:*", lambda gradient: None, made.network),
        tensight.on_forward("*", lambda inputs, output: None, made.network),
        tensight.on_forward_pre("*", lambda inputs: None, made.network),
        tensight.on_backward("first", lambda grad_input, grad_output: None, made.network),
    ]
    for one in hooks:
        one.remove()
        one.remove()
    step(made)
    assert [one.calls for one in hooks] == [0] * 5
    assert repr(hooks[4]) == "Hooks('on_backward first', 1 set, removed)"


@both
def test_a_parameter_is_seen_and_changed_where_its_module_uses_it(framework: str) -> None:
    made = training(framework)
    x = made.data[0][0]
    seen: list[str] = []
    with tensight.on_parameter("second.*", lambda name, parameter: seen.append(name), made.network) as hooks:
        plain = array(made.network(x))
    assert sorted(seen) == sorted(hooks.names) == ["second.bias", "second.weight"]
    with tensight.on_parameter("second.*", lambda parameter: parameter * 0, made.network):
        np.testing.assert_array_equal(array(made.network(x)), 0)
    np.testing.assert_array_equal(array(made.network(x)), plain)  # taken off again


@both
def test_gradients_go_through_what_stands_in_for_a_parameter(framework: str) -> None:
    made, before = training(framework), weights(training(framework))
    tensight.on_parameter("second.weight", lambda parameter: parameter * 0, made.network)
    step(made)
    after = weights(made)
    np.testing.assert_array_equal(after["second.weight"], before["second.weight"])
    assert (after["second.bias"] != before["second.bias"]).any()


def test_what_forward_saves_for_backward_is_seen_in_torch() -> None:
    made = training("torch")
    shapes: list[tuple[int, ...]] = []
    with tensight.on_saved(lambda tensor: shapes.append(tuple(tensor.shape))):
        loss = made.loss_fn(made.network(made.data[0][0]), made.data[0][1])
    loss.backward()
    assert (8, 6) in shapes


def test_what_forward_saves_for_backward_is_seen_in_mindspore() -> None:
    import mindspore

    shapes: list[tuple[int, ...]] = []

    def forward(x: Any) -> Any:
        with tensight.on_saved(lambda tensor: shapes.append(tuple(tensor.shape))):
            y = x * x
        return y.sum()

    gradient = mindspore.grad(forward)(mindspore.Tensor(np.ones(3, "f")))
    np.testing.assert_array_equal(array(gradient), 2)
    assert (3,) in shapes


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda net: tensight.on_gradient("encoder.*", print, net), UsageError, "nothing in Net is named by 'encoder"),
        (lambda net: tensight.on_gradient("gradent:*", print, net), SpecError, "did you mean 'gradient'"),
        (lambda net: tensight.on_gradient(3, print, net), UsageError, "neither a selector"),
        (lambda net: tensight.on_forward("*", print), UsageError, "no session runs here"),
    ],
)
def test_wrong_use_gets_one_sentence(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(training("torch").network)


EARLY = """
import FRAMEWORK
import tensight
seen = set()
hooks = tensight.on_gradient("gradient:*", lambda name, gradient: seen.add(name))  # before there is a network
from tests.kit.nets import training
from tensight.kit import Model
made = training("FRAMEWORK")
Model(made.network, made.loss_fn, made.optimizer).train(1, made.data)
print(sorted(seen), hooks.calls)
"""


@both
def test_in_a_session_networks_that_come_later_are_meant_too(framework: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EARLY.replace("FRAMEWORK", framework))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--run-dir", "out", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['first.bias', 'first.weight', 'second.bias', 'second.weight'] 12\n"
    parts = tensight.open(tmp_path / "out").parts
    assert [part.name for part in parts if part.kind == "hook"] == ["on_gradient gradient:*"]
