"""Where the time of a training went: what a profile holds."""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.records.source import Source

Part5 = Literal["data", "forward", "backward", "update", "rest"]
PARTS: tuple[Part5, ...] = ("data", "forward", "backward", "update", "rest")
Window = Literal["warm", "clock", "trace", "locate"]
Fact = float | int | str | bool | None


class StepTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step in seconds. `own` is what measuring took; it is in none of the parts."""

    step: int
    window: Window
    seconds: float
    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    rest: float = 0.0
    own: float = 0.0
    cpu: float = 0.0  # processor time of the training's thread
    data_cpu: float = 0.0  # of it while it was in 'data'
    delay: float = 0.0  # seconds in which that thread could have computed and had no processor
    data_delay: float = 0.0  # of them while it was in 'data', and so on
    forward_delay: float = 0.0
    backward_delay: float = 0.0
    update_delay: float = 0.0
    rest_delay: float = 0.0
    process_cpu: float = 0.0  # processor time of all threads of the process
    collecting: float = 0.0  # in the garbage collector
    collections: int = 0
    memory: int = 0  # bytes of the process at its end
    batches: int = 0  # asked of loaders
    iterators: int = 0  # of loaders that were made
    backward_operators: int = 0  # counted while operators are located
    batch: int = 0  # samples of the first batch


class OperatorTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator with one set of shapes and dtypes, summed over the traced steps."""

    name: str
    shapes: str = ""
    dtypes: str = ""
    calls: int = 0
    seconds: float = 0.0  # without operators inside
    total: float = 0.0
    flops: int = 0
    bytes: int = 0


class LineTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the user's code, its share of the samples, and the part of the step it was met in."""

    source: Source
    share: float
    part: Part5 = "rest"
    samples: int = 0


class LoopLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the training loop outside of all parts, with what it calls: how often it was met, and where most."""

    source: Source
    samples: int
    hottest: Source
    hottest_samples: int


class ModuleTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """A module: seconds of the located steps inside it, forward and backward, with and without those inside.

    MindSpore runs a backward pass as one call: of its cells only the forward times are known.
    """

    path: str
    type: str = ""
    calls: int = 0
    forward: float = 0.0
    own_forward: float = 0.0
    backward: float = 0.0
    own_backward: float = 0.0


class Calls(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of one kind from one line, in the located steps: synchronising calls, casts, copies, float64 operators."""

    what: str
    calls: int
    seconds: float = 0.0
    source: Source | None = None
    module: str = ""
    part: str = ""
    detail: str = ""


class LoaderTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data loader as it was met in the clocked steps."""

    name: str
    source: Source | None = None
    dataset: str = ""
    dataset_source: Source | None = None
    batch_size: int = 0
    workers: int = 0
    pinned: bool = False
    persistent: bool = False
    prefetch: int = 0
    iterators: int = 0
    batches: int = 0
    length: int = 0  # batches of an epoch; 0 where it is not known
    waits: tuple[float, ...] = ()  # seconds for each batch, without those in which a processor was waited for
    seconds: float = 0.0
    cpu: float = 0.0  # of the waiting thread
    worker_cpu: float = 0.0  # of all workers together


class Break(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place where torch.compile has broken a graph."""

    reason: str
    count: int = 1
    source: Source | None = None
    skipped: str = ""  # the function that is not compiled at all because of it


class Recompile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that was compiled again."""

    function: str
    reason: str = ""
    count: int = 1
    seconds: float = 0.0
    source: Source | None = None
    late: int = 0  # of them after the warm-up
    asked: Source | None = None  # the line that had it compiled


class CompileTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """What compiling took: it is no part of the steps' time after the warm-up unless it happens again."""

    seconds: float = 0.0
    graphs: int = 0
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()


class Collecting(msgspec.Struct, frozen=True, omit_defaults=True):
    """Python's garbage collector in the clocked steps."""

    collections: int = 0
    seconds: float = 0.0
    full: int = 0  # of the oldest generation
    longest: float = 0.0
    asked: int = 0  # by the program itself
    source: Source | None = None


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """What held memory at the peak."""

    what: str
    bytes: int
    tensors: int = 1
    module: str = ""


class MemoryUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tensors' memory over one traced step, counted from its start, and who held the peak."""

    seconds: tuple[float, ...] = ()
    bytes: tuple[int, ...] = ()
    peak: int = 0
    owners: tuple[Owner, ...] = ()


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of the timeline, in seconds from its start; `row` is its depth, rows of a part stand together."""

    name: str
    start: float
    seconds: float
    row: int = 0
    kind: str = "operator"  # 'step' | 'part' | 'module' | 'operator'


class Tried(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change that was tried on a few steps: seconds of a step before and after."""

    change: str
    before: float
    after: float
    note: str = ""

    @property
    def gain(self) -> float:
        """How much of the step's time it saves.

        >>> round(Tried("workers=2", 0.10, 0.04).gain, 3)
        0.6
        """
        return 1 - self.after / self.before if self.before > 0 else 0.0


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rank's profile. Operators, memory and spans are of the traced steps, the split of the clocked ones."""

    framework: str = ""
    version: str = ""
    command: tuple[str, ...] = ()
    device: str = "cpu"
    rank: int = 0
    ranks: int = 1
    steps: tuple[StepTime, ...] = ()
    operators: tuple[OperatorTime, ...] = ()
    lines: tuple[LineTime, ...] = ()
    loop: tuple[LoopLine, ...] = ()
    modules: tuple[ModuleTime, ...] = ()
    syncs: tuple[Calls, ...] = ()
    casts: tuple[Calls, ...] = ()
    copies: tuple[Calls, ...] = ()
    doubles: tuple[Calls, ...] = ()
    loaders: tuple[LoaderTime, ...] = ()
    compiling: CompileTime = CompileTime()
    collecting: Collecting = Collecting()
    memory: MemoryUse = MemoryUse()
    spans: tuple[Span, ...] = ()
    held: tuple[Calls, ...] = ()  # variables that keep old graphs alive
    facts: dict[str, Fact] = {}
    tried: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = ()
