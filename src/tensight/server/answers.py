"""What the server answers: records as they are, and a few shapes that a page needs. The page's types come from here."""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.control.machine import State
from tensight.records import (
    Coverage,
    Finding,
    Hit,
    Kind,
    Module,
    Observation,
    Parameter,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    TensorInfo,
    Watchpoint,
)
from tensight.records.run import Ended
from tensight.server import compare_answers, graph_answers, print_answers, tensor_answers, time_answers

Mode = Literal["run", "view", "serve"]


class Welcome(msgspec.Struct, frozen=True):
    """The server itself: how it was started, and what to paste to bring a training here."""

    version: str
    mode: Mode
    place: str  # the folder that is shown, or HOST:PORT where trainings connect
    run: str = ""  # the only run there is, in mode 'run'


class RunRow(msgspec.Struct, frozen=True):
    """A run in the list."""

    id: str
    path: str
    started: float = 0.0
    framework: str = ""
    command: tuple[str, ...] = ()
    ranks: int = 1
    steps: int = 0
    loss: float | None = None
    ended: Ended = "running"
    state: State | None = None  # None: no training is connected
    findings: int = 0
    hits: int = 0
    error: str = ""  # why it cannot be read


class RankRow(msgspec.Struct, frozen=True):
    """One rank of a connected training."""

    rank: int
    state: State
    step: int = -1
    client: str = ""
    device: str = ""
    node: str | None = None


class Control(msgspec.Struct, frozen=True):
    """What a connected training does now. Of two, the one with the greater `version` is the later."""

    state: State
    step: int = -1
    node: str | None = None
    phase: str = ""
    reason: str = ""
    client: str = ""  # address, host and process of the training
    device: str = ""
    ranks: tuple[RankRow, ...] = ()  # every rank that was ever connected
    version: int = 0


class ShownFinding(msgspec.Struct, frozen=True):
    """A finding with the key that mutes it."""

    key: str
    finding: Finding


class NetworkRow(msgspec.Struct, frozen=True):
    """A model in brief."""

    name: str
    type: str
    modules: int
    parameters: int  # numbers in all its parameters
    trainable: int


class Summary(msgspec.Struct, frozen=True):
    """Everything about a run but its steps, hits and nodes."""

    row: RunRow
    info: RunInfo
    end: RunEnd | None
    control: Control | None
    findings: tuple[ShownFinding, ...]
    watchpoints: tuple[Watchpoint, ...]
    networks: tuple[NetworkRow, ...]
    parts: tuple[Part, ...]
    coverage: Coverage | None
    replays: tuple[Replay, ...]
    crash: str
    devices: tuple[str, ...]
    sequence: int
    structure: int  # sequence of the last change of modules and tensors
    lost: tuple[str, ...] = ()


class StepColumns(msgspec.Struct, frozen=True):
    """Steps of one rank, as columns; `scalars` hold None where a step has no such number."""

    rank: int
    step: list[int]
    time: list[float]
    seconds: list[float]
    loss: list[float | None]
    hits: list[int]
    depth: list[int]
    epoch: list[int | None]  # from 0; None where no loader was seen
    scalars: dict[str, list[float | None]]


class StepNews(msgspec.Struct, frozen=True):
    """Steps after a sequence number."""

    sequence: int
    ranks: tuple[StepColumns, ...]


class HitPage(msgspec.Struct, frozen=True):
    """Some of the hits, in order of execution, and how many there are of each sort under the other filters."""

    total: int
    offset: int
    hits: tuple[Hit, ...]
    conditions: dict[str, int]
    kinds: dict[str, int]
    watchpoints: dict[str, int]
    networks: dict[str, int]
    recheck: bool = False
    note: str = ""


class NodeRow(msgspec.Struct, frozen=True):
    """A module in the tree."""

    network: str
    path: str
    type: str
    kinds: tuple[Kind, ...]
    parameters: int
    hits: int
    ranks: tuple[int, ...] = ()  # that have it; empty in a run of one rank
    rank_hits: dict[str, int] = {}  # of the ranks that have any


class TensorRow(msgspec.Struct, frozen=True):
    """A tensor with what was seen of it at a step."""

    info: TensorInfo
    name: str
    seen: Observation | None
    step: int  # of `seen`; an earlier one when the asked step was watched less deeply
    hits: tuple[str, ...] = ()  # condition codes at that step
    kept: bool = False


class NodeDetails(msgspec.Struct, frozen=True):
    """A module: what went in, what came out, what it holds."""

    network: str
    path: str
    step: int
    module: Module | None
    parameters: tuple[Parameter, ...]
    tensors: tuple[TensorRow, ...]


class Series(msgspec.Struct, frozen=True):
    """One statistic of one tensor over steps."""

    tensor: int
    statistic: str
    step: list[int]
    value: list[float | int | None]


class SettingForm(msgspec.Struct, frozen=True):
    name: str
    help: str
    range: str
    allowed: str
    default: float | None


class ConditionForm(msgspec.Struct, frozen=True):
    """What the page needs to ask for a condition and to explain it."""

    code: str
    name: str
    title: str
    on: str  # what '*' stands for
    applies_to: tuple[str, ...]
    settings: tuple[SettingForm, ...]
    finds: str
    matters: str
    causes: tuple[str, ...]
    advice: tuple[str, ...]
    one_of: tuple[str, ...] = ()  # at least one of these settings must be given


class Matching(msgspec.Struct, frozen=True):
    """What a selector selects."""

    count: int
    names: tuple[str, ...]


class PrintLine(msgspec.Struct, frozen=True):
    """A line that the script printed; `stream` '' is a word of Tensight's own."""

    step: int
    time: float
    stream: str
    text: str


class Call(msgspec.Struct, frozen=True):
    """One call on the stack of a rank that does not get on."""

    file: str
    line: int
    function: str
    code: str


class RankPlace(msgspec.Struct, frozen=True):
    """Where a rank is. `state` is what it does, how it ended, or 'gone' when its process is there no more."""

    rank: int
    state: str
    step: int
    host: str = ""
    process: int = 0
    seconds: float = 0.0  # since its last step ended
    operation: str = ""
    place: str = ""
    code: str = ""
    stack: tuple[Call, ...] = ()


class LiveNews(msgspec.Struct, frozen=True):
    """Something has changed: what to ask for is up to the page."""

    run: str
    sequence: int
    structure: int
    about: int  # changes with anything in the summary
    control: Control | None


class Refusal(msgspec.Struct, frozen=True):
    """Every answer that is none."""

    error: str


ALL = (
    Welcome,
    RunRow,
    Summary,
    StepNews,
    HitPage,
    NodeRow,
    NodeDetails,
    Series,
    ConditionForm,
    Matching,
    PrintLine,
    RankPlace,
    LiveNews,
    Refusal,
    *graph_answers.ALL,
    *print_answers.ALL,
    *compare_answers.ALL,
    *tensor_answers.ALL,
    *time_answers.ALL,
)
"""What the page's types are generated from."""
