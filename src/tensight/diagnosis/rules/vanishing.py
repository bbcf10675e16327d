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
            found = self._profile(case, network)
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
        for kept in case.deep():
            sizes = [rms(stats) for entry in layers if (stats := kept.gradient(entry)) is not None]
            if len(sizes) < len(layers) or not max(sizes):
                continue
            seen += 1
            if self._falls(sizes) or self._nothing(kept, layers, sizes):
                vanished += 1
                if since < 0:
                    since, shown = kept.step, sizes
        if seen < 3 or vanished < 0.7 * seen:
            return None
        return self._say(case, network, layers, shown, since, vanished)

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
