"""Gradients that vanish on their way to the first layers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept, rms
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding

VANISHED = 1e-5  # gradient of the first layer over that of the last
NOTHING = 1e-9  # gradient over weight that no learning rate makes up for
LAYERS = 4  # fewer are not called deep
TIME_STEPS = 8


class VanishingGradient(Rule):
    """Gradients that shrink layer by layer until the first layers get none."""

    fault = "vanishing_gradient"
    category = "gradient-flow"
    finds = "Gradients that shrink from layer to layer, so the first layers of a deep network get practically none."
    evidence = ("gradient of each layer's weight, over depth", "kind of the activations", "course of the loss")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    symptom = True
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.steps < 20 and not final:
            return []
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.1:
            return []  # it learns
        findings = []
        for network in case.trained():
            found = self._profile(case, network) or self._over_time(case, network)
            if found is not None:
                findings.append(found)
        return findings

    def _profile(self, case: Case, network: str) -> Finding | None:
        layers = [entry for entry in case.layers(network) if entry.held and entry.parameter.trainable]
        if len(layers) < LAYERS:
            return None
        since = -1
        shown: list[float] = []
        seen = vanished = 0
        tables = [entry for entry in case.ledger.of(network) if entry.parameter.role == "embedding" and entry.held]
        for kept in case.deep():
            sizes = [rms(stats) for entry in layers if (stats := kept.gradient(entry)) is not None]
            if len(sizes) < len(layers) or not max(sizes):
                continue
            seen += 1
            arrives = [rms(stats) for entry in tables if (stats := kept.gradient(entry)) is not None]
            if max(arrives, default=0.0) > VANISHED * max(sizes[-2:]):
                continue  # it arrives by another way: queries and keys of attention begin with next to nothing
            if self._falls(sizes) or self._nothing(kept, layers, sizes):
                vanished += 1
                if since < 0:
                    since, shown = kept.step, sizes
        least = 1 if case.networks[network].compiled else 3  # compiled code is looked into a few times only
        if seen < least or vanished < 0.7 * seen:
            return None
        return self._say(case, network, layers, shown, since, vanished)

    def _over_time(self, case: Case, network: str) -> Finding | None:
        """A module that is called once per time step, whose first calls get next to nothing of the gradient."""
        shown: list[float] = []
        node, since, seen, vanished = "", -1, 0, 0
        for kept in case.deep():
            calls: dict[str, dict[int, float]] = {}
            for one, info in kept.of_kind("output_gradient"):
                if info.network == network and info.node and info.slot == "output.0":
                    calls.setdefault(info.node, {})[info.call] = rms(one.stats)
            for path, by_call in calls.items():
                sizes = [by_call[call] for call in sorted(by_call)]
                if len(sizes) < TIME_STEPS or not max(sizes) or path.count(".") < node.count("."):
                    continue
                seen += 1
                if 0 <= sizes[0] < VANISHED * max(sizes[-2:]) and self._staircase(sizes):
                    vanished += 1
                    if since < 0:
                        node, since, shown = path, kept.step, sizes
        if seen < 3 or vanished < 0.7 * seen or not node:
            return None
        return self.finding(
            f"gradients vanish over the time steps of {node}",
            confidence=0.85,
            since_step=since,
            where=where(case.source_of(network, node), module=node, network=network),
            why=f"{node} is called {len(shown)} times in a row (a recurrent cell over time), and the gradient of its"
            f" output"
            f" shrinks from {number(shown[-1])} at the last time step to {number(shown[0])} at the first (vanishing"
            " gradient): what came early in the sequence cannot be learnt, and the loss has not fallen",
            facts=[
                ("gradient (rms) at the last time step", shown[-1]),
                ("gradient (rms) at the first", shown[0]),
                ("time steps", len(shown)),
                ("observed steps like this", vanished),
            ],
            fix=(
                "use LSTM or GRU cells, which carry gradients over many steps",
                "start recurrent weights as an orthogonal matrix (nn.init.orthogonal_)",
            ),
        )

    @staticmethod
    def _staircase(sizes: list[float]) -> bool:
        return sum(a <= b for a, b in pairwise(sizes)) >= 0.8 * (len(sizes) - 1)

    @staticmethod
    def _falls(sizes: list[float]) -> bool:
        """Small at the front, and smaller the nearer to it: not one odd layer."""
        last = max(sizes[-2:])
        if not 0 < sizes[0] < VANISHED * last:
            return False
        falling = sum(a < b for a, b in pairwise(sizes))
        return falling >= 0.7 * (len(sizes) - 1)

    @staticmethod
    def _nothing(kept: Kept, layers: list[Entry], sizes: list[float]) -> bool:
        """Next to nothing everywhere: the signal itself has died out on its way through the layers."""
        weights = [weight.abs_mean or 0.0 for entry in layers if (weight := kept.weight(entry)) is not None]
        if len(weights) < len(sizes) or (kept.record.loss or 0.0) < 1e-2:
            return False
        front = max(2, len(sizes) // 2)
        return all(0 < size < NOTHING * max(weight, 1e-12) for size, weight in zip(sizes[:front], weights[:front]))

    def _say(
        self, case: Case, network: str, layers: list[Entry], sizes: list[float], since: int, steps: int
    ) -> Finding:
        first, last = layers[0], layers[-1]
        kinds = {
            info.type.lower() for kept in case.beginning[:1] for _, info in kept.forward() if info.network == network
        }
        squashing = [name for name in ("sigmoid", "tanh", "softsign", "hardtanh") if name in kinds]
        because = ""
        if squashing:
            most = "at most a quarter of a gradient" if squashing[0] == "sigmoid" else "less than the whole gradient"
            because = f" Each {squashing[0]} passes on {most}, and far less when saturated."
        return self.finding(
            f"gradients vanish before they reach {first.name}",
            confidence=0.9,
            since_step=since,
            where=where(
                case.source_of(network, first.parameter.module),
                module=first.parameter.module,
                parameter=first.name,
                op=squashing[0] if squashing else None,
                network=network,
            ),
            why=f"in this deep network of {len(layers)} layers {self._course(sizes)}: {number(sizes[-1])} at"
            f" {last.name},"
            f" {number(sizes[0])} at the first layer {first.name}, which cannot learn (vanishing"
            f" gradient).{because} The"
            " loss has not fallen",
            facts=[
                (f"gradient (rms) of {last.name}", sizes[-1]),
                (f"gradient (rms) of {first.name}", sizes[0]),
                ("first over last", sizes[0] / max(sizes[-1], 1e-300)),
                ("observed steps like this", steps),
            ],
            fix=(
                "use ReLU or GELU instead of sigmoid or tanh between layers, with a normalisation layer after each",
                "add residual connections, or use fewer layers",
            ),
            confirm=("print the gradient norm of each layer: it falls like a staircase towards the input",),
        )

    @staticmethod
    def _course(sizes: list[float]) -> str:
        factor = (sizes[-1] / max(sizes[0], 1e-300)) ** (1 / (len(sizes) - 1))
        if factor > 1.5:
            return f"the gradient shrinks about {number(factor)} times per layer"
        return "signal and gradient have shrunk to nothing in every layer"
