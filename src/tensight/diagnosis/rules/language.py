"""Losses over tokens that count what they should not."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, where
from tensight.records import Finding

COPIED = 0.1  # of the loss of guessing
MUCH = 0.3  # of all targets
MOST = 0.5  # the same where the targets are other tokens than the input


class TargetsNotShifted(Rule):
    """Targets that are the very tokens the network is fed, position by position."""

    fault = "targets_not_shifted"
    category = "loss-definition"
    finds = "A language model whose targets are its own inputs instead of the next tokens: it learns to copy."
    evidence = ("targets against the tokens of the input", "course of the loss")
    explains = frozenset({"attention_mask_wrong"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            same = site.first.get("target_shift") == 0 and site.latest.get("target_shift", 0) == 0
            chance = site.chance()
            if not same or site.calls < 3 or site.function != "cross_entropy" or chance is None or site.classes < 8:
                continue
            trend = case.loss.trend()
            if trend is None or trend.end > COPIED * chance or self._narrow(case):
                continue
            yield self._say(case, site, chance, trend.end)

    @staticmethod
    def _narrow(case: Case) -> bool:
        """An autoencoder is meant to give back its input: it has a half of several layers that decodes.

        A language model's last layer may be called decoder too: one layer is no half.
        """
        words = ("decod", "latent", "bottleneck", "vae")
        modules = [module for name in case.trained() for module in case.networks[name].modules]
        paths = [module.path for module in modules]
        return any(
            word in f"{module.path} {module.type}".lower()
            for module in modules
            for word in words
            if module.type not in ("Linear", "Embedding") or any(path.startswith(f"{module.path}.") for path in paths)
        )

    def _say(self, case: Case, site: LossSite, chance: float, end: float) -> Finding:
        return self.finding(
            "targets are the input tokens themselves, not the next ones",
            confidence=0.85,
            since_step=site.first_step,
            where=where(site.source, op=site.function),
            why=f"the target at every position is the token that the network is fed at that position (no shift by"
            f" one), so"
            f" copying the input is enough: the loss went to {number(end)}, guessing gives {number(chance)}. A language"
            " model is to predict the next token",
            facts=[("loss now", end), ("loss of guessing", chance), ("shift between input and target", 0)],
            fix=(f"shift the targets by one: inputs = ids[:, :-1], targets = ids[:, 1:]{at(site.source)}",),
            confirm=("print input and target of one sample side by side",),
        )


class PaddingNotIgnored(Rule):
    """Padding that is counted as targets."""

    fault = "padding_not_ignored"
    category = "loss-definition"
    finds = "A loss over tokens that counts padding, though the embedding knows which token is padding."
    evidence = ("padding_idx of embeddings", "share of that token among targets", "ignore_index of the loss")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        paddings = {
            value
            for name in case.trained()
            for module in case.networks[name].modules
            if isinstance(value := module.settings.get("padding_idx"), int) and "Embedding" in module.type
        }
        for site in case.losses:
            most, share = site.first.get("target_most"), site.first.get("target_most_share")
            token, much = most, MUCH
            if site.first.get("target_shift") != 1:  # a tagger, a rewriter: where the input is padding, the target is
                most, share, token = (site.first.get(f"padded_{name}") for name in ("target", "share", "with"))
                much = MOST
            if site.calls < 3 or not isinstance(share, float):
                continue
            if site.first.get("reduction") == "none":
                continue  # the program weighs each token itself
            if token in paddings and share > much and site.first.get("ignore_index") != most:
                yield self.finding(
                    "padding is counted in the loss",
                    confidence=0.88,
                    since_step=site.first_step,
                    where=where(site.source, op=site.function),
                    why=f"{number(share * 100)} % of the targets are {most} and belong to the token {token}, which the"
                    f" embedding has as its padding (padding_idx={token}), and {site.function} does not ignore"
                    f" it (ignore_index is {site.first.get('ignore_index')}): most of the loss is about predicting"
                    " padding, so it looks low while the text is hardly learnt",
                    facts=[("share of padding among targets", share), ("padding token", most)],
                    fix=(f"leave padding out: cross_entropy(…, ignore_index={most}){at(site.source)}",),
                )
