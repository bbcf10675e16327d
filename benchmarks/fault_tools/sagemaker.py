"""SageMaker Debugger's rules, written again from their published formulas, at their published defaults.

The rules themselves run in Amazon's service only: `smdebug` has their base class, and `smdebug_rulesconfig` their names
and which tensors they want. So this is not Amazon's code. What a rule computes and its default thresholds are those of
the guide "List of Debugger Built-in Rules"; where the guide leaves something open, a comment says what is taken.

The unmodified program is watched by hooks of PyTorch, as smdebug's hook does: inputs and outputs of modules, parameters
and their gradients. Kinder than the original in four ways: it reads every step (the default is each 500th), the loss is
what `backward` is called on (smdebug sees a loss only where it is a module, or is given to it), forward passes without
gradients are no steps, and inputs and ReLUs are found whatever their names are (the default names are those of MXNet).

Not here: Overfit, Overtraining (they compare training and validation, which the program would have to say apart),
ClassImbalance, Confusion, NLPSequenceRatio (they need tensors that the program would have to name), TensorVariance (no
defaults), SimilarAcrossRuns (a second run), StalledTraining (30 minutes), and the rules of XGBoost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

TITLE = "SageMaker Debugger's rules, rebuilt"
NEEDS = "torch"

SIMPLE = ("VanishingGradient", "LossNotDecreasing", "WeightUpdateRatio")  # the default group for PyTorch
OF_LOSS = ("LossNotDecreasing", "PoorWeightInitialization")  # two batches differ; so do their losses
INTERVAL = 500  # the default of smdebug's SaveConfig

START = f"""
import importlib.util
import os
import sys

if os.path.basename(sys.argv[0]) in ("train.py", "-c"):  # -c: a process that the program starts
    spec = importlib.util.spec_from_file_location("fault_tool_sagemaker", {str(Path(__file__).resolve())!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.attach()
"""


def command(python: str, script: str) -> list[str]:
    return [python, script]


def first(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The first firing of the rules that are wanted."""
    file = folder / "fired.jsonl"
    fired = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return next((one for one in sorted(fired, key=lambda one: one["step"]) if wanted(one)), None)


# Several rows of one run: what each step shows, and what the steps show that are saved by default.
ROWS: dict[str, Callable[[Path, str], dict[str, Any] | None]] = {
    f"{TITLE}, all that apply, every step": lambda folder, _: first(folder, lambda one: not one["sparse"]),
    f"{TITLE}, the default group, every step": lambda folder, _: first(
        folder, lambda one: not one["sparse"] and one["rule"] in SIMPLE
    ),
    f"{TITLE}, without those that judge the loss, every step": lambda folder, _: first(
        folder, lambda one: not one["sparse"] and one["rule"] not in OF_LOSS
    ),
    f"{TITLE}, all that apply, each 500th step (the default)": lambda folder, _: first(
        folder, lambda one: one["sparse"]
    ),
}


class Rules:
    """The rules over a stream of saved steps. `say(rule, tensor, what)` is called for each firing."""

    def __init__(self, say: Callable[[str, str, str], None]) -> None:
        self.say = say
        self.saved = 0
        self.losses: list[float] = []
        self.checked: tuple[int, float] | None = None
        self.before: dict[str, Any] = {}
        self.images: list[Any] = []

    def step(self, number: int, tensors: dict[str, dict[str, Any]], loss: float | None) -> None:
        """One saved step: `tensors` are the collections weights, gradients, inputs, outputs, relu_input, relu_output,
        tanh_input and sigmoid_input, each by name."""
        gradients, weights = tensors["gradients"], tensors["weights"]
        for name, value in gradients.items():
            if value.abs().mean() < 1e-7:
                self.say("VanishingGradient", name, f"mean of absolute gradient {value.abs().mean():.3g} < 1e-07")
        if loss is not None:
            self.loss(number, loss)
        for name, value in weights.items():
            self.update(name, value)
        for collection in tensors.values():
            for name, value in collection.items():
                if not value.isfinite().all():
                    self.say("ExplodingTensor", name, "nan or infinite values")
                if value.numel() and not value.any():
                    self.say("AllZero", name, "100 % of the values are zero")
        if loss is not None and loss != loss:
            self.say("ExplodingTensor", "loss", "nan or infinite values")
        for name, value in tensors["relu_output"].items():
            inactive = self.inactive(value > 0)
            if inactive > 50:
                self.say("DeadRelu", name, f"{inactive:.0f} % of the ReLUs in the layer are inactive (dead)")
        for kind, low, high in (("tanh_input", -9.4999, 9.4999), ("sigmoid_input", -23.0, 16.99999)):
            for name, value in tensors[kind].items():
                inactive = self.inactive((value > low) & (value < high))
                if inactive > 50:
                    self.say("SaturatedActivation", name, f"{inactive:.0f} % of the activations are saturated")
        if self.saved < 10:
            self.initialization(tensors)
        self.inputs(tensors["inputs"])
        self.saved += 1

    @staticmethod
    def inactive(active: Any) -> float:
        """Per cent of a layer's units that are active for less than 1 % of what they see in this step. A unit is a
        column of the output, or a channel where it is an image."""
        axis = 1 if active.dim() == 4 else active.dim() - 1
        others = [at for at in range(active.dim()) if at != axis]
        share = active.float().mean(others) if others else active.float()
        return float((share < 0.01).float().mean() * 100)

    def loss(self, number: int, value: float) -> None:
        self.losses.append(value)
        step, old = self.checked or (number, value)
        if number - step >= 10 and not value <= old - abs(old) * 0.1 / 100:
            self.say("LossNotDecreasing", "loss", f"loss {value:.4g} in step {number}, {old:.4g} in step {step}")
        if self.checked is None or number - step >= 10:
            self.checked = number, value
        # The guide names no collection by default; its example asks for the losses.
        last = self.losses[-3:]
        if len(last) == 3 and all(abs(a - b) <= 1e-8 + 1e-5 * abs(b) for a, b in pairwise(last)):
            self.say("UnchangedTensor", "loss", "all close over the last 3 steps")

    def update(self, name: str, value: Any) -> None:
        """The guide does not say which norm is meant: the mean of absolute values is taken."""
        old, self.before[name] = self.before.get(name), value
        if old is None or old.shape != value.shape:
            return
        ratio = float((value - old).abs().mean() / (old.abs().mean() + 1e-9))
        if ratio > 10.0 or ratio < 1e-8:
            self.say("WeightUpdateRatio", name, f"ratio of update to weight {ratio:.3g}, not in 1e-08 to 10")

    def initialization(self, tensors: dict[str, dict[str, Any]]) -> None:
        """The first 10 steps; any of three signs is enough, as the guide joins them with "or"."""
        spreads = {name: float(value.var()) for name, value in tensors["relu_input"].items() if value.numel() > 1}
        if len(spreads) > 1:
            smallest = min(spreads, key=lambda name: spreads[name])
            if max(spreads.values()) > 10.0 * spreads[smallest]:
                self.say("PoorWeightInitialization", smallest, "variances of activation inputs differ > 10 times")
        for name, value in tensors["gradients"].items():
            flat = value.flatten()
            if len(flat) > 1:
                low, high = (float(flat.kthvalue(1 + int(at * (len(flat) - 1)))[0]) for at in (0.05, 0.95))
                if high - low < 0.001:
                    self.say("PoorWeightInitialization", name, "5th and 95th percentile of the gradient differ < 0.001")
        if len(self.losses) > 5 and min(self.losses[-5:]) >= min(self.losses[:-5]):
            self.say("PoorWeightInitialization", "loss", "loss not decreasing for 5 steps")

    def inputs(self, inputs: dict[str, Any]) -> None:
        """CheckInputImages: what has four axes is taken for images."""
        for name, value in inputs.items():
            if value.dim() == 4:
                self.images.append(value.mean([0, 2, 3]) * len(value))
                self.images.append(len(value))
                count = sum(self.images[1::2])
                mean = sum(self.images[::2]) / count
                if count >= 500 and bool((mean.abs() > 0.2).any()):
                    self.say("CheckInputImages", name, f"mean of the input data {float(mean.abs().max()):.3g} > 0.2")


class Watch:
    """Collects the tensors of a step with PyTorch's hooks, and gives them to the rules when the next step begins."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.roots: list[Any] = []
        self.parameters: dict[str, Any] = {}
        self.depth, self.number = 0, -1
        self.tensors: dict[str, dict[str, Any]] = {}
        self.loss: float | None = None
        self.said: set[tuple[bool, str]] = set()
        self.every = Rules(lambda *what: self.say(False, *what))
        self.sparse = Rules(lambda *what: self.say(True, *what))

    def say(self, sparse: bool, rule: str, tensor: str, what: str) -> None:
        if (sparse, rule) in self.said:
            return
        self.said.add((sparse, rule))
        place = tensor.removeprefix("gradient/").removesuffix("_input_0").removesuffix("_output_0")
        parameter = place if place in self.parameters else None
        module = place if parameter is None else place.rpartition(".")[0]
        line = {"step": self.number, "rule": rule, "sparse": sparse, "words": f"{rule} {tensor}: {what}"}
        with open("fired.jsonl", "a") as file:
            print(json.dumps({**line, "parameter": parameter, "module": module}), file=file)

    def begin(self) -> None:
        self.end()
        self.number += 1
        kinds = ("inputs", "outputs", "relu_input", "relu_output", "tanh_input", "sigmoid_input", "gradients")
        self.tensors = {kind: {} for kind in kinds}
        self.tensors["weights"] = {
            name: parameter.detach().float().clone() for name, parameter in self.parameters.items()
        }

    def end(self) -> None:
        """Judges the step that is complete."""
        if self.number >= 0 and self.tensors["gradients"]:
            self.every.step(self.number, self.tensors, self.loss)
            if self.number % INTERVAL == 0:
                self.sparse.step(self.number, self.tensors, self.loss)
        elif self.number >= 0:
            self.number -= 1  # no gradient came of it, so it was none
        self.loss = None

    def learn(self, root: Any) -> None:
        if any(known is root for known in self.roots):
            return
        self.roots.append(root)
        self.names.update({id(module): name for name, module in root.named_modules()})
        for name, parameter in root.named_parameters():
            self.parameters[name] = parameter
            if parameter.requires_grad:
                parameter.register_hook(lambda gradient, name=name: self.gradient(name, gradient))

    def gradient(self, name: str, gradient: Any) -> None:
        if self.tensors and not gradient.is_sparse:
            self.tensors["gradients"][f"gradient/{name}"] = gradient.detach().float().clone()

    def called(self, module: Any, inputs: Any, output: Any) -> None:
        import torch

        name, kind = self.names.get(id(module)), type(module).__name__.lower()
        if name is None or not self.tensors:
            return
        for slot, value, which in (("input", inputs[0] if inputs else None, "inputs"), ("output", output, "outputs")):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                kept = value.detach().float().clone()
                if which == "outputs" or self.depth == 1:
                    self.tensors[which][f"{name}_{slot}_0"] = kept
                if f"{kind}_{slot}" in self.tensors:
                    self.tensors[f"{kind}_{slot}"][f"{name}_{slot}_0"] = kept


def attach() -> None:
    import atexit

    import torch
    from torch.nn.modules import module as hooks

    watch = Watch()

    def before(module: Any, inputs: Any) -> None:
        if watch.depth == 0 and torch.is_grad_enabled() and not isinstance(module, torch.nn.modules.loss._Loss):
            watch.learn(module)
            watch.begin()
        watch.depth += 1

    def after(module: Any, inputs: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            watch.called(module, inputs, output)
        watch.depth -= 1

    hooks.register_module_forward_pre_hook(before)
    hooks.register_module_forward_hook(after)
    backward = torch.Tensor.backward

    def with_loss(self: Any, *given: Any, **named: Any) -> None:
        if self.numel() == 1:
            watch.loss = float(self.detach())
        backward(self, *given, **named)

    torch.Tensor.backward = with_loss
    atexit.register(watch.end)
