"""Looks at how a training was launched before it trains: what is wrong with it is said in one sentence each.

Some of it shows in the environment of one process. The rest shows only beside the other ranks, which leave what they
know of themselves in the run's folder.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tensight.capture.companion import Companion
from tensight.errors import UNDECODABLE
from tensight.records import Finding, StepRecord
from tensight.store import layout

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

FACTS = "launch.json"
TOGETHER = 2  # the step at which each rank leaves what it knows; from the next one on they are compared
LAST = 20  # the last step at which they are
SPREAD = ("mean.0", "std.0", "min.0", "max.0")  # of a batch's first tensor; a constant one tells nothing


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one rank knows of itself."""

    rank: int
    ranks: int
    host: str = ""
    address: str = ""  # MASTER_ADDR:MASTER_PORT
    backend: str = ""
    device: str = ""
    sampler: str = ""  # of the loader that feeds the first step
    replicas: int = 0  # into how many parts a DistributedSampler divides the data, and
    replica: int = -1  # which of them it takes
    sampler_seed: int | None = None
    batches: tuple[str, ...] = ()  # statistics of the first batches, in words


def check_environment(environ: Mapping[str, str]) -> list[str]:
    """What is wrong with the variables that a launcher sets; nothing when there is no launcher.

    >>> check_environment({"RANK": "2", "WORLD_SIZE": "2"})[0]
    'RANK is 2, but there are 2 ranks: they are numbered from 0 to 1; correct the launch.'
    >>> check_environment({})
    []
    """
    said: list[str] = []
    rank, world = (_number(environ, name, said) for name in ("RANK", "WORLD_SIZE"))
    if "RANK" in environ and "WORLD_SIZE" not in environ:
        said.append("RANK is set and WORLD_SIZE is not: this process would train alone; launch with torchrun.")
    if "WORLD_SIZE" in environ and "RANK" not in environ and (world or 0) > 1 and "SLURM_PROCID" not in environ:
        said.append(f"WORLD_SIZE is {world} and RANK is not set: every process would be rank 0; launch with torchrun.")
    if world is not None and world < 1:
        said.append(f"WORLD_SIZE is {world}: there must be at least one rank.")
    elif rank is not None and world is not None and not 0 <= rank < world:
        numbered = f"they are numbered from 0 to {world - 1}"
        said.append(f"RANK is {rank}, but there are {world} ranks: {numbered}; correct the launch.")
    local, locals_ = (_number(environ, name, said) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if local is not None and locals_ is not None and not 0 <= local < locals_:
        said.append(f"LOCAL_RANK is {local}, but there are {locals_} ranks on this machine; correct the launch.")
    if locals_ is not None and world is not None and locals_ > world >= 1:
        said.append(f"LOCAL_WORLD_SIZE is {locals_} and WORLD_SIZE only {world}; correct the launch.")
    if (world or 1) > 1:
        said += _check_address(environ, several=locals_ is not None and locals_ < (world or 1))
        devices = environ.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
        if locals_ is not None and 1 < devices < locals_:
            said.append(
                f"CUDA_VISIBLE_DEVICES names {devices} devices for {locals_} ranks on this machine: some would share "
                "one; name one for each."
            )
    return said


def _check_address(environ: Mapping[str, str], *, several: bool) -> list[str]:
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if address is None and port is None:
        return []  # a store in a file, or a framework with variables of its own
    if not address:
        return ["MASTER_PORT is set and MASTER_ADDR is not: ranks cannot find each other; set it to rank 0's machine."]
    if not port:
        return ["MASTER_ADDR is set and MASTER_PORT is not: the ranks cannot find each other; set it to a free port."]
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return [f"MASTER_PORT is {port[:40]!r}, which is no port; set it to a number from 1 to 65535."]
    if several and (address == "localhost" or address.startswith("127.")):
        return [f"MASTER_ADDR is {address}, but the ranks are on several machines; give that of rank 0's machine."]
    return []


def _number(environ: Mapping[str, str], name: str, said: list[str]) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        said.append(f"{name} is {text[:40]!r}, which is no whole number; correct the launch.")
        return None


def check_together(launched: Sequence[Launch]) -> list[str]:
    """What is wrong between ranks that each look right.

    >>> check_together([Launch(0, 2, backend="gloo"), Launch(1, 2, backend="nccl")])[0]
    'The ranks do not agree on the backend (gloo on rank 0, nccl on rank 1): initialise all with the same one.'
    """
    if len(launched) < 2:
        return []
    said: list[str] = []
    said += _differ(launched, "ranks", "the number of ranks", "launch them all with the same WORLD_SIZE")
    said += _differ(launched, "address", "where they meet", "give all the same MASTER_ADDR and MASTER_PORT")
    said += _differ(launched, "backend", "the backend", "initialise all with the same one")
    used = Counter((one.host, one.device) for one in launched if one.device and not one.device.startswith("cpu"))
    for (host, device), count in used.items():
        if count > 1:
            said.append(f"{count} ranks on {host} use {device}: give each its own by its LOCAL_RANK.")
    if all(one.backend == "nccl" and one.device.startswith("cpu") for one in launched):
        said.append("The backend is nccl and the model is on the CPU: use gloo, or move the model to the device.")
    return said + _check_samplers(launched)


def _check_samplers(launched: Sequence[Launch]) -> list[str]:
    said: list[str] = []
    divided = [one for one in launched if one.replicas]
    for one in divided:
        if one.replicas != one.ranks:
            parts = f"divides the data into {one.replicas} parts, but there are {one.ranks} ranks"
            said.append(f"The sampler of rank {one.rank} {parts}: leave num_replicas to it, or give the right number.")
            break
    for part, count in sorted(Counter(one.replica for one in divided).items()):
        if count > 1:
            said.append(
                f"The samplers of {count} ranks take part {part} of the data: give each the number of its rank."
            )
    said += _differ(divided, "sampler_seed", "the sampler's seed", "with the same seed each sample is seen once")
    plain = [one for one in launched if one.sampler and not one.replicas]
    first = launched[0].batches
    if divided and plain:
        who = ", ".join(str(one.rank) for one in plain)
        said.append(f"Rank {who} has no DistributedSampler and the others have: it sees all data; give it one.")
    elif len(plain) == len(launched) and first and all(one.batches == first for one in launched):
        said.append(
            f"All ranks see the same batches (sampler {plain[0].sampler}): give each loader a DistributedSampler."
        )
    return said


def _differ(launched: Sequence[Launch], field: str, name: str, remedy: str) -> list[str]:
    values: dict[object, list[int]] = {}
    for one in launched:
        if getattr(one, field) not in ("", None):
            values.setdefault(getattr(one, field), []).append(one.rank)
    if len(values) < 2:
        return []
    each = ", ".join(f"{value} on rank {', '.join(map(str, ranks))}" for value, ranks in values.items())
    return [f"The ranks do not agree on {name} ({each}): {remedy}."]


class Launching(Companion):
    """Says what is wrong with the launch: what the environment shows at once, the rest after the first steps."""

    def __init__(
        self,
        recorder: Recorder,
        folder: Path,
        say: Callable[[str], None],
        facts: Callable[[], Launch],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._say = say
        self._facts = facts
        self._environ = environ
        self._batches: list[str] = []
        self._loader = ""
        self._said: set[str] = set()

    def started(self) -> None:
        self._tell(check_environment(self._environ))

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if record.step > LAST:
            return
        if record.step < TOGETHER:
            self._note(record)
        elif record.step == TOGETHER:
            mine = self._facts()
            if mine.ranks > 1:
                leave(self._folder, self._with_loader(mine))
        elif self._recorder.rank == 0:
            self._tell(check_together(read(self._folder)))

    def _note(self, record: StepRecord) -> None:
        for event in record.events:
            if event.kind == "batch":
                self._loader = event.part
                spread = [f"{name} {event.values[name]}" for name in SPREAD if event.values.get(name)]
                if len(spread) == len(SPREAD):
                    self._batches.append(", ".join(spread))

    def _with_loader(self, mine: Launch) -> Launch:
        part = self._recorder.found.parts.get(("loader", self._loader))
        if part is None:
            return mine
        set_: Mapping[str, object] = part.settings
        return msgspec.structs.replace(
            mine,
            sampler=str(set_.get("sampler", "")),
            replicas=_whole(set_.get("replicas"), 0),
            replica=_whole(set_.get("replica"), -1),
            sampler_seed=_whole(set_.get("sampler_seed"), 0) if set_.get("replicas") else None,
            batches=tuple(self._batches),
        )

    def _tell(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                self._say(f"launch: {sentence}")


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def leave(folder: Path, facts: Launch) -> None:
    """Leave what a rank knows of itself for the others."""
    layout.leave(folder, facts.rank, FACTS, msgspec.json.encode(facts))


def read(folder: Path) -> list[Launch]:
    """What the ranks have left."""
    found: list[Launch] = []
    for path in sorted(folder.glob(f"rank-*/{FACTS}")):
        with contextlib.suppress(OSError, *UNDECODABLE):
            found.append(msgspec.json.decode(path.read_bytes(), type=Launch))
    return sorted(found, key=lambda one: one.rank)
