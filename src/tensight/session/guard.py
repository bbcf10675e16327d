"""`--guard`: the training stops before an update that would spoil the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder, StopTraining
from tensight.records import Observation, TensorInfo


def spoiling(observations: Sequence[Observation], tensors: Mapping[int, TensorInfo]) -> list[str]:
    """Names of parameters whose gradient, as the optimizer would see it, is not finite."""
    names: dict[str, bool] = {}
    for seen in observations:
        info = tensors.get(seen.tensor)
        if info is not None and info.kind == "gradient":
            names[info.name] = seen.stats.bad > 0  # the last look counts: gradients may have been clipped or mended
    return [name for name, bad in names.items() if bad]


class Guarding(Companion):
    """Stops before an optimizer step whose gradients are not finite: the weights stay as they were.

    The step is closed first, so that it is judged, recorded and looked at again like any other.
    """

    wants_gradients = True

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waited = False  # a stop has been put off once, so that the step is run again

    def before_update(
        self, optimizer: str, observations: Sequence[Observation], tensors: Mapping[int, TensorInfo]
    ) -> None:
        bad = spoiling(observations, tensors)
        if not bad:
            return
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        self._recorder.stop(f"guard: the gradient of {bad[0]}{more} is not finite; the update was not made")
        self._recorder.updated(optimizer)
        if not self._recorder.holds or self._waited:
            raise StopTraining(0)
        self._waited = True
        self._recorder.closed_early = True  # the gradients are taken away: this update changes nothing
