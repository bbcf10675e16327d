"""How a PyTorch training is kept, brought back and observed."""

from __future__ import annotations

import functools
import math
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import thread as pool_thread
from threading import Thread
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.data import dataloader

from tensight.frameworks.rewinds import Report, Seen
from tensight.frameworks.torch.graph_walk import walk
from tensight.frameworks.torch.operators import Operators
from tensight.frameworks.torch.origin_facts import finite
from tensight.frameworks.torch.replay_batches import KeptBatches
from tensight.frameworks.torch.replay_experiments import trials
from tensight.frameworks.torch.replay_look import TorchLook
from tensight.frameworks.torch.replay_samples import Samples
from tensight.frameworks.torch.snapshot import Parts, Snapshot

_SEARCH_EVERY = 20.0  # seconds between two searches for optimizers and modules
_Iterator = dataloader._BaseDataLoaderIter


class TorchRewinds:
    """Implements `tensight.frameworks.rewinds.Rewinds`."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._searched = -_SEARCH_EVERY
        self._batches = KeptBatches()
        self._keeping = False
        self._off = False
        self._tensors: list[torch.Tensor] = []  # in a copy: weights and buffers
        self._walked: Seen | None = None
        self._packs = False  # tensors are saved through hooks
        self._packing: tuple[Any, Any] = (None, None)
        self._backward: tuple[Any, Any] = (None, None)
        self._asking = self._data = 0  # which data set a batch is asked of now, and of which batches are kept
        self._again: deque[Any] | None = None  # in a copy: batches to hand out once more
        self._repeated: _Repeated | None = None  # in a copy: one batch to hand out many times
        self._put_on: tuple[Any, Any] = (None, None)
        self._samples: Samples | None = None

    def hindrance(self) -> str:
        return self.never() or (
            f"{len(multiprocessing.active_children())} worker processes belong to this one"
            if multiprocessing.active_children()
            else ""
        )

    def idle_threads(self) -> Collection[Thread]:
        """Those that compile: they stay when the compiling is done, and a copy runs eagerly."""
        compiler = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
        made = getattr(compiler, "pool", None)  # a cached function: asking it for a pool would make one
        if made is None or not made.cache_info().currsize:
            return ()
        frames, waiting = sys._current_frames(), pool_thread._worker.__code__
        return [one for one in made()._threads if one.ident in frames and frames[one.ident].f_code is waiting]

    def never(self) -> str:
        """What forbids any copy of the process, also one that is handed kept batches."""
        if torch.cuda.is_initialized():
            return "an accelerator is in use, and its state cannot be copied with the process"
        return self.unrepeatable()

    def unrepeatable(self) -> str:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return "the process is part of a group, and steps that it runs alone would wait for the others"
        return ""

    def enter_copy(self) -> str:
        torch.set_num_threads(1)  # a copy has no worker threads: more than one would wait for ever
        torch.save = torch.serialization.save = _save_nothing
        if "torch._dynamo" in sys.modules:
            torch.compiler.set_stance("force_eager")  # compiled code shows no operators
        self._tensors = Parts.find().tensors()
        if any(tensor.is_shared() for tensor in self._tensors):
            return "the weights are in shared memory, and a copy would change those of the training"
        return ""

    def size(self) -> int:
        parts = Parts.find()
        held = parts.tensors()
        for optimizer in parts.optimizers:
            held += [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    def healthy(self) -> bool:
        return all(finite(tensor) for tensor in self._tensors if isinstance(tensor, torch.nn.Parameter))

    def look(self, report: Report) -> TorchLook:
        return TorchLook(report, self._samples)

    def trials(self, seen: Seen) -> dict[str, Callable[[], str]]:
        return trials(seen)

    def scale_rates(self, factor: float) -> None:
        rates: list[Any] = []

        def before(optimizer: Any, *_: object) -> None:
            rates.append([group.get("lr") for group in optimizer.param_groups])
            for group in optimizer.param_groups:
                if "lr" in group:
                    group["lr"] = group["lr"] * factor

        def after(optimizer: Any, *_: object) -> None:
            for group, rate in zip(optimizer.param_groups, rates.pop()):
                if rate is not None:
                    group["lr"] = rate

        torch_optimizer.register_optimizer_step_pre_hook(before)
        torch_optimizer.register_optimizer_step_post_hook(after)

    def unwatchable(self) -> str:
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is not None and dynamo.counters["frames"]:
            return "compiled code shows no operators"
        mode = _get_current_dispatch_mode()
        if mode is not None and not isinstance(mode, Operators):
            return "the script runs inside a dispatch mode of its own"
        return ""

    def leave_out_update(self) -> None:
        for tensor in Parts.find().tensors():
            if tensor.is_leaf:
                tensor.grad = None
        self._snapshot.mend()

    def follow_losses(self) -> None:
        """Look into the graph of each loss that is not finite when backward is called on it."""
        original = torch.autograd.backward
        packing = torch.autograd.graph.saved_tensors_hooks
        entering = packing.__enter__

        @functools.wraps(entering)
        def packed(hooks: Any) -> Any:
            self._packs = True
            return entering(hooks)

        packing.__enter__ = packed
        self._packing = (entering, packed)

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._off:
                try:
                    self._walk(tensors)
                except Exception:
                    self._walked = None  # what the graph does not show stays unknown
            return original(tensors, *args, **kwargs)

        torch.autograd.backward = backward
        self._backward = (original, backward)

    def _walk(self, tensors: Any) -> None:
        if self._packs:
            return  # reading what was saved would run code of the user's: activations are computed again
        for loss in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
            if self._walked is None and loss.numel() == 1 and not math.isfinite(loss.item()):
                self._walked = walk(loss)

    def walked(self) -> Seen | None:
        found, self._walked = self._walked, None
        return found

    def keep(self) -> int | None:
        if self._keeping and not self._snapshot.is_live_finite():
            return None
        now = time.monotonic()
        search = now - self._searched >= _SEARCH_EVERY
        if search:
            self._searched = now
        held = self._snapshot.take(search=search)
        self._batches.clear()
        self._data = self._asking
        self._keeping = True
        return held

    def restore(self) -> bool:
        self._again = deque(self._batches)
        return self._snapshot.put_back()

    def replaced(self) -> list[tuple[int, int]]:
        return self._snapshot.replaced()

    def repeat(self, times: int) -> None:
        self._repeated = _Repeated(self._asking, times)

    def asking(self) -> int:
        return self._asking

    def serve_batches(self, on_next: Callable[[bool], None]) -> None:
        original = _Iterator.__next__
        samples = self._samples = Samples()

        @functools.wraps(original)
        def following(iterator: Any) -> Any:
            if self._off:
                return original(iterator)
            data = id(getattr(iterator, "_dataset", None))
            self._asking = data
            on_next(getattr(iterator, "_num_workers", 0) > 0)
            if self._repeated is not None:
                return self._repeated.next(data, lambda: original(iterator))
            if self._again is not None:
                if not self._again or data != self._data:
                    raise StopIteration  # a copy has no loader workers: evaluation is left out
                batch, samples.current = self._again.popleft()
                return batch
            try:
                batch = original(iterator)
            finally:
                samples.fetched(iterator)
            if self._keeping and data == self._data and not self._batches.append(batch, samples.current):
                self._forget()  # the snapshot is too old to be of use
            return batch

        _Iterator.__next__ = following
        self._put_on = (original, following)

    def can_restore(self) -> bool:
        return self._keeping and self._asking == self._data

    def drop(self) -> None:
        self._off = True
        original, following = self._put_on
        if _Iterator.__next__ is following:  # somebody may have wrapped it since
            _Iterator.__next__ = original
        if self._samples is not None:
            self._samples.drop()
        entering, packed = self._packing
        packing = torch.autograd.graph.saved_tensors_hooks
        if packed is not None and packing.__enter__ is packed:
            packing.__enter__ = entering
        original, wrapper = self._backward
        if wrapper is not None and torch.autograd.backward is wrapper:
            torch.autograd.backward = original
        self._forget()

    def _forget(self) -> None:
        self._snapshot = Snapshot()
        self._batches.clear()
        self._keeping = False


class _Repeated:
    """The next batch of a data set, many times over; each time a copy, since a loop may change its batch in place."""

    def __init__(self, data: int, times: int) -> None:
        self._data = data
        self._left = times
        self._batch: Any = None

    def next(self, data: int, fetch: Callable[[], Any]) -> Any:
        if data != self._data:
            return fetch()  # an evaluation
        if self._batch is None:
            self._batch = fetch()
        if not self._left:
            raise StopIteration
        self._left -= 1
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, self._batch)


def _save_nothing(*args: object, **kwargs: object) -> None:
    """What `torch.save` is in a copy: its native writer would not ask Python for the file."""
