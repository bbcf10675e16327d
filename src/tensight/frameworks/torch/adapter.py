"""The PyTorch adapter."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn
from torch.optim import Optimizer

from tensight.frameworks.adapter import Array, Sink
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source, variable_name
from tensight.frameworks.torch import reading, statistics
from tensight.frameworks.torch.activations import Activations
from tensight.frameworks.torch.agreeing import Agreeing
from tensight.frameworks.torch.agreement import Agreement
from tensight.frameworks.torch.attention import Attention
from tensight.frameworks.torch.backward import Backward
from tensight.frameworks.torch.calls import Calls
from tensight.frameworks.torch.cannot import CANNOT
from tensight.frameworks.torch.casts import Casts
from tensight.frameworks.torch.collectives import Collectives
from tensight.frameworks.torch.compiled import Compiled
from tensight.frameworks.torch.created import Created
from tensight.frameworks.torch.cuts import Cuts
from tensight.frameworks.torch.dividing import Dividing
from tensight.frameworks.torch.feeding import Feeding
from tensight.frameworks.torch.fixed_parts import FixedParts
from tensight.frameworks.torch.graphs import Graphs
from tensight.frameworks.torch.hooks_kept import HooksKept
from tensight.frameworks.torch.limits import Limits
from tensight.frameworks.torch.loaders import Loaders
from tensight.frameworks.torch.loading import Loading
from tensight.frameworks.torch.losses import Losses
from tensight.frameworks.torch.modes import Modes
from tensight.frameworks.torch.moved_axes import MovedAxes
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.operators_level import OperatorLevel
from tensight.frameworks.torch.optimizers import Optimizers
from tensight.frameworks.torch.own_slopes import OwnSlopes
from tensight.frameworks.torch.penalties import Penalties
from tensight.frameworks.torch.permuted import Permuted
from tensight.frameworks.torch.reading import Reading
from tensight.frameworks.torch.reordered import Reordered
from tensight.frameworks.torch.replicas import Replicas, backend, position
from tensight.frameworks.torch.reseeded import Reseeded
from tensight.frameworks.torch.scaling import Scaling
from tensight.frameworks.torch.schedules import Clipping, Schedulers
from tensight.frameworks.torch.statistics import ORDINARY
from tensight.frameworks.torch.strangers import Strangers
from tensight.frameworks.torch.structure import Structure
from tensight.frameworks.torch.symmetry import Symmetry
from tensight.frameworks.torch.terms import Terms
from tensight.frameworks.torch.updates import Updates
from tensight.frameworks.torch.watching import Watching, to_numpy
from tensight.records import Needs, Stats


class TorchAdapter:
    """Finds and watches what an unmodified PyTorch program trains."""

    name: ClassVar[str] = "torch"
    cannot: ClassVar[Mapping[str, str]] = CANNOT

    def __init__(self) -> None:
        self.watching: Watching | None = None

    def version(self) -> str:
        return str(torch.__version__)

    def attach(self, sink: Sink) -> None:
        """Begin to find and watch."""
        if self.watching is not None:
            self.detach()
        self.watching = watching = Watching(sink)
        self._patches = patches = Patches()
        created = Created(watching, patches)
        self.networks = Networks(watching, created)
        self.updates = Updates(watching, self.networks)
        self.optimizers = Optimizers(watching, self.networks, self.updates, patches)
        self.calls = Calls(watching, self.networks, patches)
        self.backward = Backward(watching, self.networks, self.updates, patches)
        activations = Activations(watching, self.calls, patches)
        losses = Losses(watching, activations, patches)
        attention = Attention(watching, patches, losses.tokens)
        attention.drops = activations.drops
        activations.made = attention.made
        fixed = FixedParts(watching, self.networks)
        self.calls.answered, losses.compared = fixed.answered, fixed.target
        scaling = Scaling(watching, self.optimizers, patches)
        Modes(watching, self.networks, patches)
        Schedulers(watching, self.optimizers, patches)
        Clipping(watching, self.optimizers, patches, self.backward.gradients_changed)
        Loaders(watching, patches)
        self.calls.fed = losses.fed
        self.backward.scale_of = scaling.scale_of
        self.backward.on_root.append(losses.root)
        self.backward.on_root.append(attention.root)
        self.backward.on_root.append(Terms(watching).root)
        self.backward.on_root.append(Penalties(watching, self.networks, patches).root)
        self.backward.holds_parameters = self._is_trained_by_an_optimizer
        self.backward.has_optimizer = lambda: len(self.optimizers.known) > 0
        self.calls.look_at_start = self.updates.look_at_start
        self.calls.before_forward.append(self.backward.weights_may_have_changed)
        graphs = Graphs(watching)
        self.calls.before_forward.append(graphs.called)
        self.calls.note = graphs.note
        self.calls.returned = graphs.ended
        self.optimizers.before_step.append(graphs.before_update)
        self.backward.by_hand.append(graphs.before_update)
        self.calls.before_forward.append(Feeding(watching).called)
        Loading(watching, self.networks, patches)
        self.dividing = Dividing(watching)
        self.calls.before_forward.append(self.dividing.stop)
        self.backward.on_root.append(self.dividing.root)
        casts = Casts(watching, patches)
        self.optimizers.before_step.append(casts.before_update)
        Limits(watching, patches)
        OwnSlopes(watching, patches)
        HooksKept(watching, self.networks, patches)
        self.calls.before_forward.append(watching.probe("seed", Reseeded(watching, patches).called))
        Agreeing(watching, patches)
        MovedAxes(watching, patches)
        self.optimizers.before_step.append(Symmetry(watching, self.networks).before_update)
        self.backward.on_root.append(Cuts(watching, self.networks).root)
        self.backward.on_root += [Permuted(watching, patches, losses.pair).root, Reordered(watching, patches).root]
        self.backward.on_root.append(Strangers(watching, self.networks).root)
        replicas = Replicas(watching, patches, self.networks)
        self.calls.before_forward.append(replicas.called)
        self.backward.on_root.append(replicas.root)
        self.optimizers.before_step.append(replicas.before_update)
        if torch.distributed.is_available():
            collectives = Collectives(watching, self.networks, patches)
            agreement = Agreement(watching, self.networks, replicas, collectives)
            self.optimizers.before_step.append(watching.probe("agreement", agreement.before_update))
            self.optimizers.after_step.append(watching.probe("agreement", agreement.after_update))
        self.operators = OperatorLevel(watching)
        self.compiled = Compiled(watching, self.networks, self.calls, self.operators, patches)
        self.calls.compiled_ended = self.compiled.ended
        self.backward.on_root.append(self.compiled.judge)
        Reading(watching, patches)
        self.operators.follow()
        self.structure = Structure(watching, self.networks)
        self.optimizers.before_step.append(self.structure.updated)
        _inert_after_fork(watching)

    def limit_memory(self, size: int) -> None:
        """What copies of weights may take, in bytes."""
        if self.watching is not None:
            self.updates.copy_limit = size

    def position(self) -> tuple[int, int] | None:
        """Rank and number of ranks, when there is a process group."""
        return position()

    def backend(self) -> str:
        """What the process group talks over."""
        return backend()

    def detach(self) -> None:
        """Take off everything."""
        if self.watching is not None:
            self.watching.probe("detach", self.backward.weights_may_have_changed)()
            self.structure.stop()
            self.operators.stop()
            self.watching.stop()
            self._patches.restore()
            self.dividing.stop()
            self.watching.probe("detach", reading.put_right)()
            self.optimizers.detach()
            self.watching = None

    def add(self, model: object, optimizer: object | None = None) -> None:
        """Watch a model and its optimizer by name."""
        if self.watching is None:
            return
        if isinstance(model, nn.Module):
            self.networks.add(model, variable_name(model, 2))
        if isinstance(optimizer, Optimizer):
            self.optimizers.add(optimizer, user_source(2))
            for known in self.networks.models.values():
                self.networks.refresh(known)

    def roots(self) -> list[nn.Module]:
        """The models that are watched, for hooks of the user's own."""
        models = self.networks.models.values() if self.watching is not None else ()
        return [root for model in models if (root := model.ref()) is not None]

    def owns(self, value: object) -> bool:
        return isinstance(value, (torch.Tensor, nn.Module, Optimizer))

    def depth_changed(self) -> None:
        if self.watching is not None:
            self.watching.depth_changed()
            self.structure.over()
            self.operators.follow()
            self.structure.follow()

    def resume_in_copy(self) -> None:
        """In a copy of the process that runs a step again: steps are counted on, which a fork has stopped."""
        if self.watching is not None:
            self.watching.attached = True
            self.watching.depth_changed()
            self.structure.over()
            self.operators.follow()

    def statistics(self, tensor: object, needs: Needs = ORDINARY, before: object | None = None) -> Stats:
        assert isinstance(tensor, torch.Tensor)
        return statistics.one(tensor, needs, before if isinstance(before, torch.Tensor) else None)

    def numpy(self, tensor: object) -> Array:
        assert isinstance(tensor, torch.Tensor)
        return to_numpy(tensor)

    def _is_trained_by_an_optimizer(self, model: object) -> bool:
        return any(held.optimizer for held in model.parameters)  # type: ignore[attr-defined]


def _inert_after_fork(watching: Watching) -> None:
    """Forked children (loader workers, replays) call the same functions: nothing in them is ours to report."""
    ref = weakref.ref(watching)

    def stop() -> None:
        known = ref()
        if known is not None:
            known.stop()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=stop)
