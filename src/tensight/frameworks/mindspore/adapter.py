"""MindSpore as the rest of Tensight sees it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import mindspore
import numpy as np
from mindspore import Tensor, nn

from tensight.frameworks.adapter import Array, Sink
from tensight.frameworks.mindspore.backward import Backward
from tensight.frameworks.mindspore.batches import Batches
from tensight.frameworks.mindspore.cannot import CANNOT
from tensight.frameworks.mindspore.cells import Cells
from tensight.frameworks.mindspore.clipping import Clipping
from tensight.frameworks.mindspore.graphs import Graphs
from tensight.frameworks.mindspore.inside import Inside
from tensight.frameworks.mindspore.loss_functions import LossFunctions
from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.networks import OPTIMIZERS, Networks
from tensight.frameworks.mindspore.scaling import Scaling
from tensight.frameworks.mindspore.schedules import Schedules
from tensight.frameworks.mindspore.shadow import Shadow
from tensight.frameworks.mindspore.swaps import Swaps
from tensight.frameworks.mindspore.unscaling import Unscaling
from tensight.frameworks.mindspore.updates import Updates
from tensight.frameworks.mindspore.values import copied, measured, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.patches import Patches
from tensight.records import Needs, Stats

_PLAIN = Needs()


class MindSporeAdapter:
    """PyNative mode in full; graph mode and jit from outside. See `tensight.frameworks.adapter.Adapter`."""

    name: ClassVar[str] = "mindspore"
    cannot: ClassVar[Mapping[str, str]] = CANNOT

    def __init__(self) -> None:
        self._patches = Patches()
        # What MindSpore's graph compiler may come across in the user's code. It compiles the Python it finds, so
        # these are lifted while it works: ours would be compiled into the user's graph, or fail to.
        self._compilable = Patches()
        self._swaps = Swaps()
        self.shadow: Shadow | None = None  # what can run the last step again
        self._cells: Cells | None = None
        self._inside: Inside | None = None
        self._watching: Watching | None = None
        self._networks: Networks | None = None
        self._updates: Updates | None = None

    def version(self) -> str:
        return str(mindspore.__version__)

    def attach(self, sink: Sink) -> None:
        """Replace the few places of MindSpore that every training passes."""
        api = api_module()
        executor = type(api._pynative_executor)
        watching = self._watching = Watching(sink)
        networks = self._networks = Networks(watching)
        updates = self._updates = Updates(watching, networks)
        losses = Losses(watching)
        updates.unscaling = Unscaling(watching, losses)
        updates.schedules = Schedules(watching, self._compilable)
        graphs = Graphs(watching, networks, updates, losses)
        cells = self._cells = Cells(watching, networks, updates, losses, graphs, api._pynative_executor.requires_grad)
        self.shadow = graphs.shadow = Shadow(watching, networks, cells, api._JitExecutor)
        graphs.inside = self._inside = Inside(watching, networks, self.shadow)
        graphs.structure = self._inside.structure = cells.listening.structure
        backward = Backward(watching, losses, updates, cells, self.shadow, graphs.look_into_parts)
        LossFunctions(watching, losses, cells, self._swaps)
        Clipping(watching, updates, cells, self._swaps)
        wrap = self._patches.wrap
        wrap_compilable = self._compilable.wrap
        wrap(nn.Cell, "__call__", cells.patch)
        wrap(executor, "end_graph", backward.patch_end_graph)
        wrap(executor, "grad", backward.patch_grad)
        wrap(sys.modules["mindspore.ops.composite.base"], "_pynative_func_grad_forward", backward.patch_forward)
        for optimizer in OPTIMIZERS:
            wrap_compilable(optimizer, "__init__", updates.patch_init)
        wrap(api._JitExecutor, "__call__", lambda call: graphs.patch_jit(call, cells.stack, lambda: cells.inside))
        for compiler in (api._JitExecutor, api._CellGraphExecutor):
            wrap(compiler, "compile", graphs.patch_compile(self._compilable, self._swaps))
        scaling = Scaling(watching, losses, updates)
        amp = sys.modules.get("mindspore.amp")
        for scaler in ("DynamicLossScaler", "StaticLossScaler"):
            kind = getattr(amp, scaler, None)
            if kind is not None:
                wrap_compilable(kind, "scale", scaling.patch_scale)
                wrap_compilable(kind, "adjust", scaling.patch_adjust)
        managers = sys.modules.get("mindspore.train.loss_scale_manager")
        for manager in ("FixedLossScaleManager", "DynamicLossScaleManager"):
            kind = getattr(managers, manager, None)
            if kind is not None:
                wrap_compilable(kind, "__init__", scaling.patch_init)
        iterators = sys.modules.get("mindspore.dataset.engine.iterators")
        if iterators is not None:
            wrap(iterators.Iterator, "__next__", Batches(watching).patch)

    def detach(self) -> None:
        """Put everything back."""
        if self._watching is None:
            return
        if self._updates is not None:
            self._watching.probe("detaching", self._updates.before_forward)
        if self._inside is not None:
            self._watching.probe("detaching", self._inside.end)
        self._watching.busy = True  # what somebody still holds of ours does nothing from now on
        self._patches.restore()
        self._compilable.restore()
        self._swaps.restore()
        self._watching = self._networks = self._updates = self.shadow = self._cells = self._inside = None

    @property
    def trains(self) -> bool:
        """Whether a model of this framework was found: another framework may be imported beside it."""
        return self._networks is not None and bool(self._networks.all)

    def add(self, model: object, optimizer: object | None = None) -> None:
        """Watch a model (and optimizer) by name."""
        if self._watching is None or self._networks is None or self._updates is None:
            return
        self._watching.probe("model", self._networks.find, model)
        if optimizer is not None:
            self._watching.probe("optimizer", self._updates.find, optimizer)

    def roots(self) -> list[nn.Cell]:
        """The models that are watched, for hooks of the user's own."""
        known = self._networks.all if self._networks is not None else ()
        return [root for network in known if (root := network.root()) is not None]

    def owns(self, value: object) -> bool:
        return isinstance(value, (Tensor, nn.Cell))

    def depth_changed(self) -> None:
        """Every probe reads the depth itself; only the structure of a step is told when it is over."""
        if self._watching is not None and self._cells is not None:
            self._watching.probe("structure", self._cells.listening.structure.over)

    def statistics(self, tensor: object, needs: Needs = _PLAIN, before: object | None = None) -> Stats:
        earlier = None if before is None else (before if isinstance(before, np.ndarray) else view(before))
        return measured(view(tensor), needs, earlier)

    def numpy(self, tensor: object) -> Array:
        return copied(tensor)


def api_module() -> Any:
    """The module with MindSpore's executors; it has moved between versions."""
    for name in ("mindspore.graph.api", "mindspore.common.api"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "_pynative_executor"):
            return module
    raise RuntimeError(f"MindSpore {mindspore.__version__} has no executor that Tensight knows")
