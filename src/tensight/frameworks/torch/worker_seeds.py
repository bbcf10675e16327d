"""What goes on in loader workers: whether two draw the same random numbers, whether stored samples are written to.

Each worker notes, around its first batches, the state of every random generator it can reach, and sends it through a
pipe. Reading a state draws nothing. Two workers whose generator was in the same state before a batch, and moved on in
the batch, have drawn the same numbers. A tensor of the data set counts what writes to it: a batch that was only read
leaves that number as it was. A loader without workers reads in the training process: there only that is looked at.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import torch
from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import fetch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source

_NOTED = 2  # batches of each worker
_MOST_ATTRIBUTES = 64
_STORED = "stored "  # before the name of a tensor that the data set holds
_PIPE = 4096  # bytes that are written at once or not at all


class Note(msgspec.Struct, array_like=True):
    """What one worker saw around one batch: by generator, its state before and after."""

    worker: int
    batch: int
    marks: dict[str, tuple[int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Note).decode
_writing: list[int] = []  # the pipe that workers forked now inherit
_noted = 0  # in a worker


class WorkerSeeds:
    """Watches workers of data loaders.

    `found(iterator, what, workers, source)` is told once per loader, `written(iterator, attribute, source)` too.
    """

    def __init__(
        self, watching: Watching, patches: Patches, found: Callable[..., None], written: Callable[..., None]
    ) -> None:
        self.watching = watching
        self._found = found
        self._written = written
        self._reading: dict[int, tuple[int, Any]] = {}  # iterator → its pipe, and the loader
        self._alone: WeakKeyDictionary[Any, list[Note]] = WeakKeyDictionary()  # what reads here → its first batches
        patches.wrap(dataloader._MultiProcessingDataLoaderIter, "__init__", self._around_init)
        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            patches.wrap(kind, "fetch", self._around_fetch)

    def _around_init(self, original: Any) -> Any:
        watching = self.watching
        prepare = watching.probe("workers", self._prepare)

        def __init__(iterator, loader, *args, **kwargs):
            pipe = prepare() if watching.active and loader.num_workers > 1 else None
            try:
                original(iterator, loader, *args, **kwargs)
            finally:
                if pipe is not None:
                    _writing.clear()
                    os.close(pipe[1])
            if pipe is not None:
                self._reading[id(iterator)] = (pipe[0], loader)

        return __init__

    def _prepare(self) -> tuple[int, int]:
        pipe = os.pipe()
        for end in pipe:
            os.set_blocking(end, False)
        _writing[:] = [pipe[1]]
        return pipe

    def handed_out(self, iterator: Any, index: int) -> None:
        """A batch has come; after a few of each worker it can be said."""
        held = self._reading.get(id(iterator))
        if held is None:
            fetcher = getattr(iterator, "_dataset_fetcher", None)
            notes = () if fetcher is None else self._alone.get(fetcher, ())
            if len(notes) == _NOTED and index + 1 == _NOTED:
                stored = written(notes)
                if stored is not None:
                    self._written(iterator, stored)
            return
        pipe, loader = held
        if index + 1 < loader.num_workers * _NOTED:
            return
        self.over(iterator)
        data = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(pipe, 1 << 16):
                data += piece
        os.close(pipe)
        notes = list(_notes(data))
        stored = written(notes)
        if stored is not None:
            self._written(iterator, stored)
        same = shared(notes)
        if same is not None:
            name, workers = same
            self._found(iterator, name, workers, loader.num_workers, _line(name, loader))

    def over(self, iterator: Any) -> None:
        self._reading.pop(id(iterator), None)

    def _around_fetch(self, original: Any) -> Any:
        watching, in_worker = self.watching, _in_worker(original)
        count = watching.probe("workers", _writes)

        def fetch(fetcher, index):
            if _writing or not watching.active or get_worker_info() is not None:
                return in_worker(fetcher, index)
            notes = self._alone.setdefault(fetcher, [])
            if len(notes) >= _NOTED:
                return original(fetcher, index)
            before = count(fetcher.dataset)
            result = original(fetcher, index)
            after = count(fetcher.dataset) or {}
            marks = {name: (mark, after[name]) for name, mark in (before or {}).items() if name in after}
            notes.append(Note(0, len(notes), marks))
            return result

        return fetch


def _notes(data: bytes) -> Iterator[Note]:
    while len(data) > 2:
        size = int.from_bytes(data[:2], "little")
        yield _decode(data[2 : 2 + size])
        data = data[2 + size :]


def shared(notes: list[Note]) -> tuple[str, int] | None:
    """The generator from which several workers have drawn the same numbers, and how many workers.

    >>> shared([Note(0, 0, {"np": (1, 2)}), Note(1, 0, {"np": (1, 2)})])
    ('np', 2)
    >>> shared([Note(0, 0, {"np": (1, 1)}), Note(1, 0, {"np": (1, 1)})]) is None
    True
    """
    drawn: dict[tuple[str, int, int, int], set[int]] = {}
    for note in notes:
        for name, (before, after) in note.marks.items():
            if before != after and not name.startswith(_STORED):
                drawn.setdefault((name, note.batch, before, after), set()).add(note.worker)
    best = max(drawn.items(), key=lambda pair: len(pair[1]), default=None)
    return None if best is None or len(best[1]) < 2 else (best[0][0], len(best[1]))


def written(notes: Sequence[Note]) -> str | None:
    """The attribute of the data set that each batch of each worker wrote to.

    >>> written([Note(0, 0, {"stored images": (1, 33)}), Note(1, 0, {"stored images": (1, 17)})])
    'images'
    >>> written([Note(0, 0, {"stored images": (1, 33)}), Note(1, 0, {"stored images": (1, 1)})]) is None
    True
    """
    names = {name for note in notes for name in note.marks if name.startswith(_STORED)}
    always = [name for name in sorted(names) if all(_moved(note.marks.get(name)) for note in notes)]
    return always[0].removeprefix(_STORED) if always and len(notes) > 1 else None


def _moved(mark: tuple[int, int] | None) -> bool:
    return mark is not None and mark[0] != mark[1]


# in a worker


def _in_worker(original: Any) -> Any:
    def fetch(fetcher, index):
        if not _writing or _noted >= _NOTED or get_worker_info() is None:
            return original(fetcher, index)
        before = _guarded_marks(fetcher)
        result = original(fetcher, index)
        _send(before, _guarded_marks(fetcher))
        return result

    return fetch


def _guarded_marks(fetcher: Any) -> dict[str, int]:
    try:
        return marks(fetcher.dataset)
    except Exception:
        return {}  # a dataset may be anything; what is not seen is not said


def _send(before: dict[str, int], after: dict[str, int]) -> None:
    global _noted
    with contextlib.suppress(Exception):
        batch, _noted = _noted, _noted + 1
        both = {name: (mark, after[name]) for name, mark in before.items() if name in after}
        note = _encode(Note(get_worker_info().id, batch, both))
        if len(note) + 2 <= _PIPE:
            os.write(_writing[0], len(note).to_bytes(2, "little") + note)


def marks(dataset: Any) -> dict[str, int]:
    """The state of every random generator in reach, as a number; and how often each tensor of the data was written."""
    found = {"random": hash(random.getstate()), "torch": hash(bytes(torch.get_rng_state().numpy()))}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = _legacy(numpy.random.mtrand._rand)
    for name, value in _generators(dataset):
        if isinstance(value, random.Random):
            found[name] = hash(value.getstate())
        elif isinstance(value, torch.Generator):
            found[name] = hash(bytes(value.get_state().numpy()))
        elif numpy is not None and isinstance(value, numpy.random.RandomState):
            found[name] = _legacy(value)
        elif numpy is not None and isinstance(value, numpy.random.Generator):
            found[name] = hash(str(value.bit_generator.state))
    return found | _writes(dataset)


def _writes(dataset: Any) -> dict[str, int]:
    """How often each tensor that a data set holds was written to."""
    stored = getattr(dataset, "__dict__", {}).items()
    tensors = [(name, one) for name, one in list(stored)[:_MOST_ATTRIBUTES] if type(one) is torch.Tensor]
    return {f"{_STORED}{name}": one._version for name, one in tensors if not one.is_inference()}


def _legacy(state: Any) -> int:
    kind, keys, *rest = state.get_state()
    return hash((kind, keys.tobytes(), *rest))


def _generators(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of a data set, and of what it holds one level down."""
    seen = 0
    waiting = [("", dataset)]
    for prefix, owner in waiting:
        for name, value in list(getattr(owner, "__dict__", {}).items()):
            seen += 1
            if seen > _MOST_ATTRIBUTES:
                return
            path = f"{prefix}{name}"
            if type(value).__module__.startswith(("numpy.random", "random", "torch._C")) or isinstance(
                value, (random.Random, torch.Generator)
            ):
                yield f"dataset.{path}", value
            elif not prefix and not isinstance(value, (torch.Tensor, str, bytes, int, float, list, dict, tuple)):
                waiting.append((f"{path}.", value))


# in the training


def _line(name: str, loader: Any) -> Source | None:
    """Where the generator is made or seeded: in the data set's class, or in the function that starts a worker."""
    if name.startswith("dataset."):
        return _assignment(type(loader.dataset), name.split(".")[1])
    started = loader.worker_init_fn
    return None if started is None else _words_in(started, "seed(")


def _assignment(kind: type, attribute: str) -> Source | None:
    for owner in kind.__mro__:
        found = _words_in(owner, f"self.{attribute} =") or _words_in(owner, f"self.{attribute}:")
        if found is not None:
            return found
    return None


def _words_in(thing: Any, words: str) -> Source | None:
    """The first line of the user's own code of a thing that holds these words."""
    try:
        file = inspect.getsourcefile(thing)
        lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError):
        return None
    if file is None or not is_user_file(file):
        return None
    for number, text in enumerate(lines):
        if words in text:
            return source_of(file, first + number)
    return None
