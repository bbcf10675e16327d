"""The growing evidence about one run: what rules look at."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from tensight.diagnosis.batches import Batches
from tensight.diagnosis.compiles import Compiles
from tensight.diagnosis.kept import Kept
from tensight.diagnosis.ledger import Entry, Ledger
from tensight.diagnosis.losses import LossCalls
from tensight.diagnosis.modes import Modes
from tensight.diagnosis.noted import Noted
from tensight.diagnosis.order import CallOrder
from tensight.diagnosis.reloads import Reloads
from tensight.diagnosis.replicas import Alone
from tensight.diagnosis.series import Series
from tensight.diagnosis.terms import LossTerms
from tensight.diagnosis.trouble import Trouble
from tensight.diagnosis.words import where
from tensight.records import Module, Network, Part, Replay, Source, StepRecord, TensorInfo, Where

FIRST = 12  # steps kept whole from the beginning
RECENT = 24  # and from the end
SPACED = 40  # and between, at growing distances
MOST_KEPT = 200_000  # observations in all


class Case:
    """What is known of a run so far. Fed with records only, so it is the same live and on a recorded run."""

    def __init__(self) -> None:
        self.networks: dict[str, Network] = {}
        self.parts: dict[tuple[str, str], Part] = {}
        self.tensors: dict[int, TensorInfo] = {}
        self.replays: list[Replay] = []
        self.ledger = Ledger()
        self.order = CallOrder()
        self.modes = Modes()
        self.reloads = Reloads()
        self.alone = Alone()
        self.losses = LossCalls()
        self.terms = LossTerms()
        self.batches = Batches()
        self.compiles = Compiles()
        self.noted = Noted()
        self.trouble = Trouble(self.tensors)
        self.loss = Series()
        self.first_losses: list[tuple[int, tuple[float, ...]]] = []  # what each backward was given, first steps
        self.scalars: dict[str, Series] = {}
        self.waits = Series()  # seconds of a step before the network was called, of steps that were hardly watched
        self.wait_shares = Series()
        self.steps = 0  # records so far
        self.deep_steps = 0  # of which with gradients and weights
        self.last_step = -1
        self.crashed = False
        self.findings_of: dict[str, int] = {}  # fault → since_step of what stands now, for rules that give way
        self._first: list[Kept] = []
        self._spaced: list[Kept] = []
        self._recent: deque[Kept] = deque()
        self._kept = 0
        self._next_spaced = FIRST * 1.3
        self._modules: dict[tuple[str, str], Module] = {}
        self._layers: dict[str, list[Entry]] = {}
        self._ran_later: dict[str, dict[str, int]] = {}
        self._operators: set[int] = set()  # tensors of level op: rules look at modules and parameters

    # growing

    def network(self, network: Network) -> None:
        self.networks[network.name] = network
        self._modules.update({(network.name, module.path): module for module in network.modules})
        self.ledger.add_network(network, self.last_step + 1)
        self._layers.clear()

    def part(self, part: Part) -> None:
        self.parts[part.kind, part.name] = part
        self.ledger.add_part(part)
        if part.kind == "optimizer":
            self.order.optimizer(part.name)
            self.order.networks_of[part.name] = {name.partition(":")[0] for name in part.parameters}
            self.order.parameters_of[part.name] = frozenset(part.parameters)

    def tensor(self, info: TensorInfo) -> None:
        self.tensors[info.id] = info
        if info.kind in ("operator", "operator_gradient"):
            self._operators.add(info.id)
        self.ledger.add_tensor(info)

    def replay(self, replay: Replay) -> None:
        self.replays.append(replay)

    def add(self, record: StepRecord) -> bool:
        """One more step. Answers whether something new went wrong in it."""
        self.steps += 1
        self.last_step = record.step
        if record.loss is not None:
            self.loss.add(record.step, record.loss)
            if len(self.first_losses) < 8 and record.losses:
                self.first_losses.append((record.step, record.losses))
        waited = record.scalars.get("before_forward")
        if waited is not None and record.losses and record.seconds > 0:
            self.waits.add(record.step, waited)
            self.wait_shares.add(record.step, waited / record.seconds)
        for name, value in record.scalars.items():
            if name == "before_forward":
                continue
            series = self.scalars.get(name)
            if series is None:
                series = self.scalars[name] = Series()
            series.add(record.step, value)
        prompt = False
        if record.events:
            self.order.follow(record.step, record.events)
            self.modes.follow(record.step, record.events)
            self.reloads.follow(record.step, record.events)
            self.alone.follow(record.step, record.events)
            self.losses.follow(record.step, record.events)
            self.terms.follow(record.step, record.events)
            self.batches.follow(record.step, record.events)
            self.compiles.follow(record.step, record.events)
            prompt = self.noted.follow(record.step, record.events)
        if record.observations and record.depth:  # at the lightest depth the loss is all there is
            shown = self._without_operators(record)
            self._keep(shown)
            self.ledger.follow(shown.step, shown.observations)
        return self.trouble.follow(record) or prompt

    def _without_operators(self, record: StepRecord) -> StepRecord:
        operators = self._operators
        if not operators:
            return record
        left = tuple(one for one in record.observations if one.tensor not in operators)
        return msgspec.structs.replace(record, observations=left)

    def rest(self, record: StepRecord) -> None:
        """What came after the last step: no step of its own."""
        self.order.follow(record.step, record.events)
        self.modes.follow(record.step, record.events)
        self.losses.follow(record.step, record.events)

    def _keep(self, record: StepRecord) -> None:
        self.deep_steps += 1
        kept = Kept(record, self.tensors)
        if len(self._first) < FIRST and self._kept < MOST_KEPT // 2:
            self._first.append(kept)
            self._kept += len(record.observations)
            return
        if self.deep_steps >= self._next_spaced and len(self._spaced) < SPACED:
            self._spaced.append(kept)
            self._next_spaced = self.deep_steps * 1.3
        self._recent.append(kept)
        size = len(record.observations) or 1
        while len(self._recent) > max(2, min(RECENT, MOST_KEPT // 2 // size)):
            self._recent.popleft()

    # what rules ask

    @property
    def updates(self) -> int:
        """Updates so far, those of steps that were slept through included: each step ends with one."""
        return max(self.order.updates, self.last_step + 1) if self.order.updates else 0

    def deep(self) -> list[Kept]:
        """The kept steps that were observed, oldest first."""
        merged = {kept.step: kept for kept in (*self._first, *self._spaced, *self._recent)}
        return [merged[step] for step in sorted(merged)]

    @property
    def beginning(self) -> list[Kept]:
        """The first steps that were observed."""
        return self._first

    def latest(self, count: int) -> list[Kept]:
        """The latest observed steps, oldest first."""
        recent = [*self._first, *self._recent] if len(self._recent) < count else list(self._recent)
        return recent[-count:]

    def module(self, network: str, path: str) -> Module | None:
        return self._modules.get((network, path))

    def source_of(self, network: str, path: str) -> Source | None:
        """Where the user created a module, or the nearest module around it whose line is known."""
        while True:
            module = self._modules.get((network, path))
            if module is not None and module.source is not None:
                return module.source
            if not path:
                break
            path = path.rpartition(".")[0]
        found = self.networks.get(network)
        return found.source if found is not None else None

    def place_of(self, network: str, entry: Entry) -> Where:
        """Where a parameter is: in its module, on the line that created that."""
        module = entry.parameter.module
        return where(self.source_of(network, module), module=module, parameter=entry.name, network=network)

    def optimizers(self) -> list[Part]:
        return [part for (kind, _), part in self.parts.items() if kind == "optimizer"]

    def optimizer_of(self, network: str) -> Part | None:
        """The optimizer that holds the most parameters of a network."""
        best, most = None, 0
        for part in self.optimizers():
            count = sum(name.startswith(f"{network}:") for name in part.parameters)
            if count > most:
                best, most = part, count
        return best

    def main_optimizer(self) -> Part | None:
        """The optimizer that steps the most, for what is said of a whole run."""
        parts = self.optimizers()
        return max(parts, key=lambda part: self.order.optimizer(part.name).steps) if parts else None

    def lr(self, optimizer: str | None = None) -> Series | None:
        """The learning rate of an optimizer's first group, or of the run's only one."""
        names = [f"lr/{optimizer}", f"lr/{optimizer}/0", "lr"] if optimizer else ["lr"]
        for name in names:
            if name in self.scalars:
                return self.scalars[name]
        return next((series for name, series in self.scalars.items() if name.startswith("lr")), None)

    def trained(self) -> list[str]:
        """Networks that some optimizer holds parameters of."""
        return [name for name in self.networks if any(entry.held for entry in self.ledger.of(name))]

    def fed_lengths(self, network: str, step: int | None = None) -> set[int]:
        """Lengths of the first axis of what a network was given in the first steps, or in one of them."""
        return {
            (one.shape or info.shape)[0]
            for kept in self.beginning
            if step is None or kept.step == step
            for one, info in kept.of_kind("input")
            if info.network == network and (one.shape or info.shape)
        }

    def layers(self, network: str) -> list[Entry]:
        """The weights that make layers, in the order in which their modules ran (or are listed)."""
        known = self._layers.get(network)
        if known is not None:
            return known
        entries = [entry for entry in self.ledger.of(network) if entry.layer and not entry.parameter.tied_to]
        ran = self.ran(network)
        listed = {module.path: at for at, module in enumerate(self.networks[network].modules)}
        if ran:
            entries = [entry for entry in entries if entry.parameter.module in ran]
            entries.sort(key=lambda entry: ran[entry.parameter.module])
            if self.deep_steps >= 3:
                self._layers[network] = entries
        else:
            entries.sort(key=lambda entry: listed.get(entry.parameter.module, 0))
        return entries

    def ran(self, network: str) -> dict[str, int]:
        """Module → when it first returned, in the first step that shows it.

        Where a part is compiled, a step may show no more than the outermost module: then a later one is asked.
        """
        shown = self._ran_in(self._first, network)
        if not shown:  # a second stage: a student, a fine-tuning
            shown = self._ran_later.get(network) or self._ran_in(self._recent, network)
            if shown.keys() - {""}:
                self._ran_later[network] = shown
        return shown

    @staticmethod
    def _ran_in(steps: Iterable[Kept], network: str) -> dict[str, int]:
        shown: dict[str, int] = {}
        for kept in steps:
            order: dict[str, int] = {}
            for one, info in kept.forward() or kept.returned():  # a program that only infers evaluates
                if info.network == network and info.node not in order:
                    order[info.node] = one.order
            shown = shown or order
            if order.keys() - {""}:
                return order
        return shown

    def first_module(self, network: str) -> str:
        """The first module inside the model that ran: what the input meets."""
        order = self.ran(network)
        for path in order:
            if path and not any(other.startswith(f"{path}.") for other in order):
                return path
        return ""

    def first_measuring(self, network: str) -> str:
        """The same among modules that measured values can meet: tokens go into a table, and these past it."""
        order = self.ran(network)
        for path in order:
            module = self.module(network, path)
            inner = any(other.startswith(f"{path}.") for other in order)
            if path and not inner and (module is None or not module.type.startswith("Embedding")):
                return path
        return self.first_module(network)

    def updates_seen(self) -> Iterator[tuple[Kept, Entry, float]]:
        """(step, weight, mean size of its change over mean size of the weight) of kept steps."""
        for kept in self.deep():
            for entry, ratio in kept.update_ratios(self.ledger):
                yield kept, entry, ratio

    def chance_loss(self) -> float | None:
        """The loss of guessing: ln C for classes, ln 2 for one logit, the variance of the targets."""
        return self.losses.chance()

    def diverged(self) -> bool:
        """Whether the loss became non-finite or many times what it was at the start."""
        begin = self.loss.first
        if not math.isfinite(begin):
            return False
        return self.loss.most > 1e3 * (abs(begin) + 1e-3) or not math.isfinite(self.loss.last)
