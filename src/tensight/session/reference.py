"""`tensight.reference`: record one batch through a model, and feed it to another."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare import rounding_floors
from tensight.compare.reference import FORMAT, Call, Notes, Recorded, write
from tensight.compare.result import Comparison
from tensight.errors import UsageError
from tensight.frameworks.hands import Array, Hands, flat, hands_of
from tensight.session.reference_replay import Replaying
from tensight.session.reference_weights import carry_over

Loss = Callable[[Any], Any]


class Reference:
    """A recorded reference. Made by `tensight.reference`."""

    def __init__(self, folder: str | Path) -> None:
        self.recorded = Recorded(folder)

    @property
    def inputs(self) -> list[Array]:
        """The model's tensors, as NumPy, in order of its arguments."""
        root = self.recorded.root
        return [self.recorded.tensor(key) for key in _keys([root.arguments, root.keywords])]

    @property
    def outputs(self) -> list[Array]:
        """What the model returned."""
        return [self.recorded.tensor(key) for key in self.recorded.root.outputs]

    @property
    def weights(self) -> dict[str, Array]:
        """Parameters and buffers by attribute path."""
        return self.recorded.named("weights")

    @property
    def loss(self) -> float | None:
        return self.recorded.notes.loss

    def arguments(self, model: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The recorded arguments as tensors of the model's framework: `model(*arguments, **keywords)`."""
        hands = _hands(model)

        def made(array: Array, dtype: str) -> Any:
            return hands.tensor(array, dtype, model)

        root = self.recorded.root
        return tuple(self.recorded.tree(root.arguments, made)), dict(self.recorded.tree(root.keywords, made))

    def carry_over(self, model: object, mapping: Mapping[str, str] | None = None) -> list[str]:
        """Put the recorded weights into a model, of this or the other framework; returns the names that had no place.

        A UsageError names the first parameter of the model that got no value, or whose shape does not fit.
        """
        return carry_over(self.recorded, _hands(model), model, mapping or {})

    def restore_random(self, model: object) -> None:
        """Set the random states of Python, NumPy and the model's framework to those of the recording."""
        states = self.recorded.named("random")
        if "numpy" in states:
            np.random.set_state(("MT19937", states["numpy"], int(states["numpy_place"][0]), 0, 0.0))
        if "python" in states:
            random.setstate((3, tuple(int(word) for word in states["python"]), None))
        _hands(model).set_random_states(states)

    def compare(
        self, model: object, mapping: Mapping[str, str] | None = None, *, loss: Loss | None = None
    ) -> Comparison:
        """Feed the recorded batch to another model and name every module that computes something else.

        Each module is also called alone on the inputs that the reference's had, so that faults which stand behind
        another are found too. `mapping` names modules of the reference by those of the model.
        """
        return Replaying(self.recorded, _hands(model), model, mapping or {}, loss).comparison()

    def __repr__(self) -> str:
        notes = self.recorded.notes
        return f"<Reference {self.recorded.folder}: {notes.model} of {notes.framework}, {len(notes.calls)} calls>"


def reference(
    folder: str | Path,
    model: object | None = None,
    *inputs: Any,
    loss: Loss | None = None,
    **keywords: Any,
) -> Reference:
    """Record a reference, or open one that was recorded.

    With a model and its inputs, the model is called once, as it is (in the mode it is in), and the inputs, weights,
    random states and the inputs and outputs of every module are written to `folder`; with `loss`, a function of the
    model's result, the loss and the gradients too. Inputs may be NumPy arrays. The model, its gradients and the random
    states stay as they were.

        tensight.reference("lenet.ref", model, x, loss=lambda out: loss_fn(out, y))       # in one framework
        tensight.reference("lenet.ref").compare(port)                                     # in the other
    """
    if model is None:
        return Reference(folder)
    hands = _hands(model)
    if hands.compiled(model):
        raise UsageError("tensight.reference: the model is compiled; record the eager one, and compare the compiled")
    recording = _Recording(hands, model, inputs, keywords)
    recording.run(loss)
    recording.save(Path(folder))
    return Reference(folder)


def _hands(model: object) -> Hands:
    found = hands_of(model)
    if found is None:
        raise UsageError(
            f"tensight.reference: {type(model).__name__} is no model of a known framework; give an nn.Module or a Cell"
        )
    return found


class _Recording:
    """One call of a model, written down."""

    def __init__(self, hands: Hands, model: Any, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.hands = hands
        self.model = model
        self.inputs = tuple(map(self._taken, inputs))
        self.keywords = {name: self._taken(value) for name, value in keywords.items()}
        self.tensors: dict[str, Array] = {}
        self.dtypes: dict[str, str] = {}
        self.calls: list[Call] = []
        self.gradients: dict[str, Array] = {}
        self.judge: dict[str, Array] = {}
        self.loss: float | None = None
        self.how = ""
        self._counts: dict[str, int] = {}
        self.random = self._random()

    def _taken(self, value: Any) -> Any:
        """An array, as `tensight.batch` hands it out, as a tensor of the model's framework."""
        return self.hands.tensor(value, value.dtype.name, self.model) if isinstance(value, np.ndarray) else value

    def run(self, loss: Loss | None) -> None:
        hands, model = self.hands, self.model
        with hands.hearing(model, self._heard):
            hands.call(model, self.inputs, self.keywords)
        if not any(not call.path for call in self.calls):
            raise UsageError(f"tensight.reference: {type(model).__name__} was called, but its call was not heard")
        if loss is not None:
            self.loss, found = hands.gradients(model, lambda: loss(model(*self.inputs, **self.keywords)))
            self.gradients = {name: hands.numpy(value) for name, value in found.items()}
        self.calls, self.judge, self.how = rounding_floors.measured(
            hands, model, self.inputs, self.keywords, self.calls, self.tensors, self.dtypes
        )

    def save(self, folder: Path) -> None:
        hands = self.hands
        weights = hands.weights(self.model)
        for name, value in weights.items():
            self.dtypes[f"weights/{name}"] = hands.dtype(value)
        notes = Notes(
            FORMAT,
            hands.name,
            hands.version(),
            type(self.model).__name__,
            hands.training(self.model),
            tuple(hands.record(path, module) for path, module in hands.modules(self.model)),
            tuple(self.calls),
            self.dtypes,
            self.loss,
            self.how,
        )
        files = {
            "tensors": self.tensors,
            "weights": {name: hands.numpy(value) for name, value in weights.items()},
            "gradients": self.gradients,
            "random": self.random,
            "judge": self.judge,
        }
        write(folder, notes, files)

    def _heard(
        self, path: str, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], result: Any
    ) -> None:
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        whole = [True]
        given = self._tree(tuple(arguments), whole)
        named = self._tree(dict(keywords), whole)
        keys = tuple(self._keep(value) for value in flat(self.hands, result))
        self.calls.append(Call(path, number, given, named, keys, whole=whole[0]))

    def _tree(self, value: Any, whole: list[bool]) -> Any:
        if self.hands.is_tensor(value):
            return {"tensor": self._keep(value)}
        if isinstance(value, tuple):
            return {"tuple": [self._tree(one, whole) for one in value]}
        if isinstance(value, list):
            return {"list": [self._tree(one, whole) for one in value]}
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            return {"dict": {name: self._tree(one, whole) for name, one in value.items()}}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"value": value}
        whole[0] = False
        return {"value": None}

    def _keep(self, tensor: Any) -> str:
        key = str(len(self.tensors))
        self.tensors[key] = self.hands.numpy(tensor)
        self.dtypes[key] = self.hands.dtype(tensor)
        return key

    def _random(self) -> dict[str, Array]:
        state = np.random.get_state(legacy=False)
        _, words, _ = random.getstate()
        assert isinstance(state, dict)
        return {
            "numpy": np.asarray(state["state"]["key"], np.uint32),
            "numpy_place": np.array([state["state"]["pos"]], np.int64),
            "python": np.array(words, np.int64),
            **self.hands.random_states(),
        }


def _keys(tree: Any) -> list[str]:
    """Keys of the tensors in recorded arguments, in order."""
    if isinstance(tree, dict):
        if "tensor" in tree:
            return [tree["tensor"]]
        tree = list(tree.values())
    return [key for one in tree for key in _keys(one)] if isinstance(tree, list) else []
