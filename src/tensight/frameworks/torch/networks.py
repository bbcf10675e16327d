"""Models: which there are, what they are called, their modules and parameters, and when they have changed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.source import variable_name
from tensight.frameworks.torch.created import Created
from tensight.frameworks.torch.describe import is_activation, module_record, role
from tensight.frameworks.torch.shards import type_name
from tensight.frameworks.torch.statistics import dtype_name
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.frameworks.torch.wrappers import is_compiled, stripped, walk
from tensight.records import Network, Parameter, Source


class Entry:
    """A module of a network, with the tensors known of it."""

    __slots__ = ("activation", "calls", "network", "path", "ref", "stamp", "tables", "type")

    def __init__(self, module: nn.Module, path: str, network: str) -> None:
        self.ref = weakref.ref(module)
        self.path = path
        self.network = network
        self.type = type_name(module)
        self.activation = is_activation(module)
        self.calls = 0
        self.stamp = -1
        self.tables: dict[object, Watched] = {}

    def begin(self, stamp: int) -> int:
        """The number of the call that begins."""
        if self.stamp != stamp:
            self.stamp, self.calls = stamp, 0
        self.calls += 1
        return self.calls - 1


class Held:
    """A parameter or buffer of a network (or of none: then `network` is '')."""

    __slots__ = (
        "before",
        "holder",
        "name",
        "network",
        "node",
        "optimizer",
        "ref",
        "registered",
        "slot",
        "tables",
        "trainable",
    )

    def __init__(self, tensor: torch.Tensor, network: str, node: str, slot: str, holder: nn.Module | None) -> None:
        self.ref = weakref.ref(tensor)
        self.network = network
        self.node = node
        self.slot = slot
        self.name = f"{node}.{slot}" if node else slot
        self.holder = None if holder is None else weakref.ref(holder)
        self.trainable = tensor.requires_grad
        self.optimizer = ""
        self.registered = True
        self.tables: dict[object, Watched] = {}

    def changed(self) -> bool:
        """Whether another tensor stands in its place now, or it was frozen or thawed."""
        tensor = self.ref()
        if tensor is None or tensor.requires_grad != self.trainable:
            return True
        holder = self.holder() if self.holder is not None else None
        return holder is not None and self.registered and holder._parameters.get(self.slot) is not tensor


class Model:
    """A network that is watched."""

    def __init__(self, name: str, root: nn.Module, source: Source | None) -> None:
        self.name = name
        self.ref = weakref.ref(root)
        self.type = type_name(root)
        self.source = source
        self.compiled = is_compiled(root)
        self.parameters: list[Held] = []
        self.buffers: list[Held] = []
        self.extra_refs: list[tuple[str, weakref.ref]] = []  # modules outside named_modules(), by path
        self.loose: list[tuple[str, str, weakref.ref]] = []  # parameters outside named_parameters(): node, slot
        self.described: Network | None = None
        self.incomplete = False  # lazy modules: described again after the first call
        self.started = False  # its parameters were looked at as they were before the first call
        self.thread = threading.get_ident()  # the one that trains it
        self.buffers_seen = -1
        self.frozen_seen = False
        self.marks = 0  # how often a weight of it was marked, and the step from which the next mark is due
        self.next_mark = 0
        self.marked: torch.Tensor | None = None  # some values of it at the latest mark

    @property
    def is_elsewhere(self) -> bool:
        """Whether another thread trains it: reading a `.grad` while that thread clears it may end the process."""
        return self.thread != threading.get_ident()


class Networks:
    """Finds and describes networks, and answers which module or parameter an object is."""

    def __init__(self, watching: Watching, created: Created) -> None:
        self.watching = watching
        self.created = created
        self.entries: IdentityMap[nn.Module, Entry] = IdentityMap()
        self.parameters: IdentityMap[torch.Tensor, Held] = IdentityMap()
        self.models: dict[str, Model] = {}
        self.optimizer_of: IdentityMap[torch.Tensor, str] = IdentityMap()
        self.changed_hooks: list = []  # called with a model after it was described anew
        self._ignored: IdentityMap[nn.Module, bool] = IdentityMap()

    def outermost(self, module: nn.Module, skip: int) -> Entry | None:
        """The entry of a module that is called from outside all modules; a new network when it is of none yet."""
        inner = stripped(module)
        entry = self.entries.values.get(id(inner))
        if entry is not None:
            if "parametrizations" in entry.path.split("."):
                return None  # a weight was read that torch calculates from others: no call of the network
            if inner is not module and is_compiled(module):
                self.compiled(entry.network)
            return entry
        if inner in self._ignored:
            return None
        if isinstance(inner, nn.modules.loss._Loss) or not _has_parameters(inner):
            self._ignored[inner] = True
            return None
        root = self.created.topmost(inner)
        if isinstance(root, ParametrizationList):
            return None  # torch tries it out before it hangs in a network
        self.add(root, variable_name(root, skip + 1) or variable_name(module, skip + 1), compiled=is_compiled(module))
        return self.entries.get(inner)

    def trained_here(self, entry: Entry) -> None:
        """This thread calls a network to train it."""
        model = self.models.get(entry.network)
        if model is not None:
            model.thread = threading.get_ident()

    def add(self, root: nn.Module, name: str = "", *, compiled: bool = False) -> Model:
        """Watch a model from now on."""
        outer, root = root, stripped(root)
        for known in self.models.values():
            if known.ref() is root:
                return known
        model = Model(self._free_name(name or type(root).__name__), root, self.created.source(root))
        model.compiled = compiled or is_compiled(outer)
        self.models[model.name] = model
        self.describe(model)
        return model

    def adopt(self, tensors: list[torch.Tensor]) -> None:
        """Find the networks of parameters that an optimizer holds, for models that are never called as such."""
        unknown = {id(tensor): tensor for tensor in tensors if tensor not in self.parameters}
        for module in self.created.all() if unknown else ():
            if module not in self.entries and any(id(tensor) in unknown for tensor in module._parameters.values()):
                root = self.created.topmost(module)
                self.add(root, variable_name(root))

    def describe(self, model: Model) -> None:
        """(Re-)describe a model to the sink, whole."""
        root = model.ref()
        if root is None:
            return
        modules, parameters = [], []
        earlier = model.parameters
        model.parameters, model.buffers, model.incomplete = [], [], False
        first: dict[int, str] = {}
        for path, module, registered in self._modules(model, root):
            self._enter(module, path, model.name)
            modules.append(module_record(path, module, self.created.source(module)))
            for slot, tensor in module._parameters.items():
                if tensor is not None:
                    parameters.append(self._parameter(model, path, module, slot, tensor, registered, first))
            for slot, tensor in module._buffers.items():
                if tensor is not None:
                    parameters.append(self._buffer(model, path, module, slot, tensor))
        for node, slot, ref in model.loose:
            tensor = ref()
            if tensor is not None and id(tensor) not in first:
                parameters.append(self._parameter(model, node, None, slot, tensor, False, first))
        self._forget(earlier, model)
        model.described = Network(
            model.name, model.type, tuple(modules), tuple(parameters), model.compiled, model.source
        )
        self.watching.sink.network(model.described)
        for hook in self.changed_hooks:
            hook(model)

    def refresh(self, model: Model) -> bool:
        """Describe a model again if parameters were replaced, frozen or thawed, or handed to an optimizer."""
        if any(held.changed() for held in model.parameters) or any(
            held.optimizer != (self.optimizer_of.get(tensor) or "")
            for held in model.parameters
            if (tensor := held.ref()) is not None
        ):
            self.describe(model)
            return True
        return False

    def unknown(self, module: nn.Module, scopes: list) -> Entry | None:
        """The entry of a module that was called inside a network and is not known there; None for a throw-away one."""
        if module in self._ignored:
            return None
        model = self.models.get(scopes[0].entry.network) if scopes else None
        root = model.ref() if model is not None else None
        if model is None or root is None:
            return None
        if any(module is part for _, part in walk(root)):
            self.describe(model)
            return self.entries.get(module)
        for scope in reversed(scopes):
            owner = scope.entry.ref()
            place = _place_in(owner, module) if owner is not None else None
            if place is not None:
                path = f"{scope.entry.path}.{place}" if scope.entry.path else place
                model.extra_refs.append((path, weakref.ref(module)))
                self.describe(model)
                return self.entries.get(module)
        self._ignored[module] = True
        return None

    def found_loose(self, tensors: list[torch.Tensor]) -> None:
        """Trained tensors outside all named parameters: name them by the module that holds them, where one does."""
        touched = []
        for tensor in tensors:
            if tensor in self.parameters:
                continue
            for model in self.models.values():
                root = model.ref()
                place = None if root is None else self._find_loose(model, root, tensor)
                if place is not None:
                    model.loose.append((*place, weakref.ref(tensor)))
                    touched.append(model)
                    break
        for model in dict.fromkeys(touched):
            self.describe(model)

    # inside

    def _find_loose(self, model: Model, root: nn.Module, tensor: torch.Tensor) -> tuple[str, str] | None:
        for path, module, _ in self._modules(model, root):
            place = _place_in(module, tensor)
            if place is not None:
                return path, place
        return None

    def _modules(self, model: Model, root: nn.Module) -> Iterator[tuple[str, nn.Module, bool]]:
        seen = set()
        for path, module in walk(root):
            seen.add(id(module))
            yield path, module, True
        for prefix, ref in model.extra_refs:
            extra = ref()
            if extra is not None and id(extra) not in seen:
                for path, module in walk(extra):
                    if id(module) not in seen:
                        seen.add(id(module))
                        yield f"{prefix}.{path}" if path else prefix, module, False

    def _enter(self, module: nn.Module, path: str, network: str) -> None:
        known = self.entries.get(module)
        if known is None or known.path != path or known.network != network:
            self.entries[module] = Entry(module, path, network)

    def _forget(self, earlier: list[Held], model: Model) -> None:
        """Parameters that were replaced belong to the model no longer, though an optimizer may still hold them."""
        now = {id(held) for held in model.parameters}
        for held in earlier:
            tensor = held.ref()
            if tensor is not None and id(held) not in now and self.parameters.get(tensor) is held:
                self.parameters.pop(tensor)

    def _hold(self, model: Model, tensor: torch.Tensor, node: str, slot: str, holder: nn.Module | None) -> Held:
        held = self.parameters.get(tensor)
        if held is None or held.network != model.name or held.name != (f"{node}.{slot}" if node else slot):
            held = self.parameters[tensor] = Held(tensor, model.name, node, slot, holder)
            model.started = False
        held.trainable = tensor.requires_grad
        held.optimizer = self.optimizer_of.get(tensor) or ""
        return held

    def _parameter(
        self,
        model: Model,
        node: str,
        module: nn.Module | None,
        slot: str,
        tensor: torch.Tensor,
        registered: bool,
        first: dict[int, str],
    ) -> Parameter:
        name = f"{node}.{slot}" if node else slot
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
            model.incomplete = True
            return Parameter(name, (), dtype_name(tensor.dtype), tensor.requires_grad, module=node)
        tied = first.get(id(tensor), "")
        if not tied:
            first[id(tensor)] = name
            held = self._hold(model, tensor, node, slot, module)
            held.registered = registered
            model.parameters.append(held)
        return Parameter(
            name,
            tuple(tensor.shape),
            dtype_name(tensor.dtype),
            tensor.requires_grad,
            False,
            "weight" if module is None else role(module, slot, tensor),
            node,
            tied,
            self.optimizer_of.get(tensor) or "",
            registered,
        )

    def _buffer(self, model: Model, node: str, module: nn.Module, slot: str, tensor: torch.Tensor) -> Parameter:
        held = Held(tensor, model.name, node, slot, module)
        previous = self.parameters.get(tensor)
        if previous is not None and previous.network == model.name and previous.name == held.name:
            held = previous
        else:
            self.parameters[tensor] = held
        model.buffers.append(held)
        return Parameter(held.name, tuple(tensor.shape), dtype_name(tensor.dtype), False, True, "buffer", node)

    def _free_name(self, name: str) -> str:
        free, number = name, 2
        while free in self.models:
            free, number = f"{name}-{number}", number + 1
        return free

    def compiled(self, network: str) -> None:
        """A network turned out to run compiled."""
        model = self.models.get(network)
        if model is not None and not model.compiled:
            model.compiled = True
            self.describe(model)


def _has_parameters(module: nn.Module) -> bool:
    if next(module.parameters(), None) is not None:
        return True
    return any(
        isinstance(part, nn.Module)
        for value in vars(module).values()
        if isinstance(value, (list, tuple))
        for part in value
    )


def _place_in(owner: nn.Module, wanted: object) -> str | None:
    """Where an object hangs in a module beside its registered parts: 'blocks.0' for a plain list."""
    for name, value in vars(owner).items():
        if name in ("_parameters", "_buffers", "_modules"):
            continue
        if value is wanted:
            return name
        if isinstance(value, (list, tuple)):
            for index, part in enumerate(value):
                if part is wanted:
                    return f"{name}.{index}"
                if isinstance(part, (list, tuple)):
                    for inner, deep in enumerate(part):
                        if deep is wanted:
                            return f"{name}.{index}.{inner}"
        elif isinstance(value, dict):
            for key, part in value.items():
                if part is wanted:
                    return f"{name}.{key}"
    return None
