"""A look at steps with every operator in view: finds where bad values came from (see `tensight.frameworks.rewinds`)."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tensight.frameworks.adapter import Array
from tensight.frameworks.rewinds import Report, Seen
from tensight.frameworks.torch.operators import Operators
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.origin import FirstBad, Origin, source_of
from tensight.frameworks.torch.replay_samples import Samples
from tensight.records import Replay


class TorchLook:
    """Observes from its making until `stop`."""

    def __init__(self, report: Report, samples: Samples | None = None) -> None:
        self.scope = Scope()
        self.scope.attach()
        self.first = FirstBad(self.scope, samples)
        self._samples = samples
        self._mode = Operators(self.first, self.scope, report)
        self._mode.__enter__()

    def step_over(self, step: int) -> None:
        self.first.step_over(step)
        self._mode.forget()
        if self._samples is not None:
            self._samples.step_over()

    def seen(self, step: int, *, final: bool) -> Seen | None:
        origin = self.first.found(final=final)
        if origin is None:
            return None
        summand = self.first.summand()
        if summand:
            origin.facts["summand"] = summand
        return Seen(replay_of(origin, self.first.spoilt()), values_of(origin))

    def stop(self) -> None:
        """Take it off. Inside a mode of the user's it can only fall silent."""
        if _get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(None, None, None)
        else:
            self._mode.silent = True
        self.scope.detach()


def replay_of(origin: Origin, then: tuple[str, ...]) -> Replay:
    """The record of an origin: for a backward operator under the name and line of its forward operator."""
    call = origin.call
    about = call.forward if call.forward is not None and call.phase == "backward" else call
    found: dict = {"kind": origin.kind, "name": origin.name, "spoilt_operators": origin.reached, **origin.facts}
    return Replay(
        step=origin.step,
        status="exact",
        operator=about.name,
        module=about.module,
        phase=call.phase,
        source=source_of(origin),
        inputs=origin.inputs,
        facts=found,
        then=then,
    )


def values_of(origin: Origin) -> dict:
    """The real inputs as NumPy."""
    return {name: as_numpy(tensor) for name, tensor in origin.values.items()}


def as_numpy(tensor: torch.Tensor) -> Array:
    """A tensor as NumPy; formats that NumPy lacks as float32, which holds them exactly."""
    value = tensor.detach().cpu()
    if value.dtype is torch.bfloat16 or (value.is_floating_point() and value.element_size() < 2):
        value = value.float()
    return value.contiguous().numpy()
