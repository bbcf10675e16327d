"""Models: which cells and parameters there are, and what they are called."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from mindspore import Parameter, Tensor, nn
from mindspore.nn.learning_rate_schedule import LearningRateSchedule

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.values import dtype_name
from tensight.frameworks.mindspore.watching import Slot, Watching, free_name
from tensight.frameworks.source import user_source, variable_name
from tensight.records import Kind, Module, Network
from tensight.records import Parameter as ParameterRecord
from tensight.records.event import Value

ACTIVATIONS = frozenset(
    """
    ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU SeLU SELU GELU FastGelu SiLU Mish Sigmoid LogSigmoid HSigmoid HSwish
    Hardsigmoid Hardswish HardTanh Hardtanh HShrink SoftShrink Softsign SoftSign Softplus Tanh Tanhshrink Softmax
    Softmax2d Softmin LogSoftmax GLU Threshold SoftmaxExt PReLUExt GELUExt
    """.split()  # noqa: SIM905 - a list of a hundred quotes is harder to read
)
_SETTINGS = (
    *("p", "keep_prob", "axis", "dim", "use_batch_statistics", "momentum", "eps", "in_channels", "out_channels"),
    *("epsilon", "approximate", "alpha", "pad_mode", "padding", "has_bias"),
)
_OWN = ("_cells", "_params", "_buffers", "_params_list")  # where a cell keeps what it knows of
_RUNNING = ("moving_mean", "moving_variance")


class Cell_:
    """A cell of a known network."""

    __slots__ = ("activation", "calls", "network", "path", "slots", "turn", "type")

    def __init__(self, cell: nn.Cell, network: Known, path: str) -> None:
        self.network = network
        self.path = path
        self.type = type(cell).__name__
        self.activation = is_activation(cell)
        self.calls = 0
        self.turn = -1
        self.slots: dict[tuple[str, str, int], Slot] = {}

    def call(self, turn: int) -> int:
        """The number of this call among those of the same turn."""
        if turn != self.turn:
            self.turn = turn
            self.calls = 0
        self.calls += 1
        return self.calls - 1


class Frame:
    """A call of a cell that is running."""

    __slots__ = ("call", "cell", "counts")

    def __init__(self, cell: Cell_, call: int) -> None:
        self.cell = cell
        self.call = call
        self.counts: dict[str, int] = {}  # functions called in it so far

    def count(self, function: str) -> int:
        """How often a function was called in this call of the cell before."""
        number = self.counts.get(function, 0)
        self.counts[function] = number + 1
        return number


class Weight:
    """A parameter or buffer of a network, or one that only an optimizer holds."""

    __slots__ = ("_gradient", "_value", "before", "holder", "kind", "network", "node", "ref", "slot", "type")

    def __init__(self, value: Tensor, network: str, node: str, slot: str, kind: Kind, of: str) -> None:
        self.ref = weakref.ref(value)
        self.network = network
        self.node = node
        self.slot = slot
        self.kind: Kind = kind
        self.type = of
        self.before: Any = None
        self.holder = ""  # the optimizer that holds it
        self._value: Slot | None = None
        self._gradient: Slot | None = None

    @property
    def name(self) -> str:
        return f"{self.node}.{self.slot}" if self.node else self.slot

    def forget_slots(self) -> None:
        self._value = self._gradient = None

    def value(self, watching: Watching, tensor: Tensor) -> Slot:
        if self._value is None:
            self._value = watching.declare(
                self.kind, self.node, self.slot, tensor, network=self.network, type=self.type
            )
        return self._value

    def gradient(self, watching: Watching, tensor: Tensor) -> Slot:
        if self._gradient is None:
            self._gradient = watching.declare(
                "gradient", self.node, self.slot, tensor, network=self.network, type=self.type, phase="backward"
            )
        return self._gradient


class Known:
    """A network that was found."""

    def __init__(self, name: str, root: nn.Cell) -> None:
        self.name = name
        self.root = weakref.ref(root)
        self.weights: list[Weight] = []
        self.cells: list[Cell_] = []
        self.has_trained = False  # seen in training mode
        self.fresh = True  # weights are not yet observed
        self.compiled = False
        self.inputs: dict[str, Slot] = {}
        self.hidden: list[tuple[str, weakref.ref[nn.Cell]]] = []  # layers in plain lists and dicts, by their place
        self.source = user_source()

    def parts(self) -> Iterator[tuple[str, nn.Cell, bool]]:
        """Each cell with its path, and whether the network itself knows of it."""
        root = self.root()
        if root is None:
            return
        for path, cell in root.cells_and_names():
            yield path, cell, True
        for place, ref in self.hidden:
            hidden = ref()
            if hidden is not None:
                for path, cell in hidden.cells_and_names():
                    yield (f"{place}.{path}" if path else place), cell, False


class Networks:
    """All networks by their cells and parameters, held weakly: a model lives as long as the user's program wants."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._cells: IdentityMap[nn.Cell, Cell_] = IdentityMap()
        self._weights: IdentityMap[Tensor, Weight] = IdentityMap()
        self._others: IdentityMap[nn.Cell, bool] = IdentityMap()  # whether a cell is no model
        self.all: list[Known] = []

    def cell(self, cell: nn.Cell) -> Cell_ | None:
        return self._cells.get(cell)

    def is_model(self, cell: nn.Cell) -> bool:
        """Whether an outermost cell is one to watch: it has parameters, and is not there to drive another."""
        if cell in self._cells:
            return True
        if cell not in self._others:
            driver = isinstance(cell, (*OPTIMIZERS, nn.LossBase, LearningRateSchedule)) or is_wrapper(cell)
            self._others[cell] = driver or not has_parameters(cell)
        return not self._others.get(cell)

    def weights(self) -> list[Weight]:
        """All that are known, of networks and of optimizers."""
        return [weight for _, weight in self._weights.items()]

    def forget_slots(self) -> None:
        """In a copy, for another sink: what was declared is not known to it."""
        for weight in self.weights():
            weight.forget_slots()
        for network in self.all:
            network.inputs.clear()
            network.fresh = False
            for cell in network.cells:
                cell.slots.clear()

    def weight(self, parameter: Tensor) -> Weight | None:
        return self._weights.get(parameter)

    def stranger(self, parameter: Parameter) -> Weight:
        """A parameter that an optimizer holds and no known network has."""
        known = self.weight(parameter)
        if known is None:
            node, _, slot = parameter.name.rpartition(".")
            known = self._weights[parameter] = Weight(parameter, "", node, slot, kind_of(parameter, ""), "")
        return known

    def find(self, root: nn.Cell) -> Known:
        """The network of an outermost cell; a new one when it is not known."""
        known = self.cell(root)
        if known is not None:
            return known.network
        network = Known(self._name(root), root)
        self.all.append(network)
        self.declare(network)
        return network

    def declare(self, network: Known) -> None:
        """Tell all of a network: first when it is found, then again when it has changed."""
        root = network.root()
        if root is None:
            return
        modules: list[Module] = []
        records: list[ParameterRecord] = []
        first: dict[int, str] = {}
        network.weights = []
        network.cells = []
        for path, cell, registered in network.parts():
            known = self.cell(cell)
            if known is None or known.network is not network or known.path != path:
                known = self._cells[cell] = Cell_(cell, network, path)
            network.cells.append(known)
            modules.append(Module(path, known.type, known.activation, settings=settings_of(cell)))
            for slot, value, kind in own_tensors(cell):
                name = f"{path}.{slot}" if path else slot
                tied = first.setdefault(id(value), name)
                weight = self._own(value, network.name, path, slot, kind, known.type) if tied == name else None
                records.append(
                    ParameterRecord(
                        name,
                        tuple(value.shape),
                        dtype_name(value),
                        trainable=kind == "weight",
                        buffer=kind == "buffer",
                        role=role_of(cell, slot, kind),
                        module=path,
                        tied_to="" if tied == name else tied,
                        optimizer="" if weight is None else weight.holder,
                        registered=registered,
                    )
                )
                if weight is not None:
                    network.weights.append(weight)
        self._watching.sink.network(
            Network(
                network.name,
                type(root).__name__,
                tuple(modules),
                tuple(records),
                compiled=network.compiled,
                source=network.source,
            )
        )

    def newcomer(self, network: Known, owner: str, cell: nn.Cell, *, trains: bool) -> Cell_ | None:
        """A cell that was called inside a network and is not known: the network has changed, or does not know of it.

        `owner` is the path of the cell that called it, `trains` whether a gradient passes through it.
        """
        cells = {path: part for path, part, _ in network.parts()}
        if not any(part is cell for part in cells.values()):
            if not trains or not has_parameters(cell):
                return None
            place = place_in(cells.get(owner), cell)
            if place is None:
                return None
            network.hidden.append((f"{owner}.{place}" if owner else place, weakref.ref(cell)))
        self.declare(network)
        return self.cell(cell)

    def _own(self, value: Tensor, network: str, path: str, slot: str, kind: Kind, of: str) -> Weight:
        known = self.weight(value)
        if known is None or (known.network, known.node, known.slot, known.kind) != (network, path, slot, kind):
            known = self._weights[value] = Weight(value, network, path, slot, kind, of)
        return known

    def _name(self, root: nn.Cell) -> str:
        base = variable_name(root) or type(root).__name__
        return free_name(base, (network.name for network in self.all))


def place_in(owner: nn.Cell | None, wanted: nn.Cell) -> str | None:
    """Where a cell hangs in another that does not know of it: 'blocks.0' for a plain list."""
    for name, value in (vars(owner) if owner is not None else {}).items():
        if name in _OWN or not isinstance(value, (list, tuple, dict)):
            continue
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            if part is wanted:
                return f"{name}.{key}"
    return None


def own_tensors(cell: nn.Cell) -> Iterator[tuple[str, Tensor, Kind]]:
    """Parameters and buffers that belong to a cell itself, by their own names."""
    for slot, value in cell._params.items():
        if value is not None:
            yield slot, value, kind_of(value, slot)
    for many in getattr(cell, "_params_list", {}).values():
        for value in many:
            yield value.name.rpartition(".")[2], value, kind_of(value, "")
    for slot, value in getattr(cell, "_buffers", {}).items():
        if isinstance(value, Tensor):
            yield slot, value, "buffer"


def kind_of(value: Tensor, slot: str) -> Kind:
    if slot in _RUNNING:
        return "buffer"
    return "weight" if getattr(value, "requires_grad", False) else "frozen"


def role_of(cell: nn.Cell, slot: str, kind: Kind) -> str:
    """'weight', 'bias', 'norm_scale', 'norm_shift', 'embedding' or 'buffer'."""
    if kind == "buffer":
        return "buffer"
    if "Norm" in type(cell).__name__:
        return "norm_shift" if slot in ("beta", "bias") else "norm_scale"
    if slot == "embedding_table" or "Embedding" in type(cell).__name__:
        return "embedding"
    return "bias" if slot.endswith("bias") or slot.startswith("bias") else "weight"


def settings_of(cell: nn.Cell) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in _SETTINGS:
        value = cell.__dict__.get(name)
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
    return found


def is_activation(cell: nn.Cell) -> bool:
    return type(cell).__name__ in ACTIVATIONS


def has_parameters(cell: nn.Cell) -> bool:
    return next(iter(cell.get_parameters()), None) is not None


def is_wrapper(cell: nn.Cell) -> bool:
    """Whether a cell only drives a model: it holds an optimizer, or joins a model with a loss, by MindSpore itself."""
    if isinstance(cell, (nn.WithLossCell, nn.WithEvalCell, nn.TrainOneStepCell)):
        return True
    return any(isinstance(part, OPTIMIZERS) and part is not cell for _, part in cell.cells_and_names())


def _optimizer_classes() -> tuple[type, ...]:
    from mindspore.experimental.optim import Optimizer

    return (nn.Optimizer, Optimizer)


OPTIMIZERS = _optimizer_classes()
