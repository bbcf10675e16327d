"""Attention that looks where it must not."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Fact, Rule
from tensight.diagnosis.words import called, plural, where
from tensight.records import Event, Finding

STEPS = 2  # steps in which it must be seen


def predicts_next(case: Case) -> LossSite | None:
    """The loss whose targets are the tokens that come next; None when there is none."""
    for site in case.losses:
        if site.first.get("target_shift") == 1 and site.latest.get("target_shift", 1) == 1:
            return site
    return None


class AttentionMaskWrong(Rule):
    """A mask that is missing, turned round, or added where it should shut."""

    fault = "attention_mask_wrong"
    category = "graph-wiring"
    finds = (
        "Attention whose mask is missing (a language model sees the token it is to predict), inverted (only padding is"
        " looked at), or made of 0 and 1 and added to the scores."
    )
    evidence = (
        "which positions attention looks at in the first steps",
        "whether targets are the next tokens of the input",
        "which tokens the open positions hold",
    )
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low"})
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        seen = case.noted.of("attention")
        if len({step for step, _ in seen}) < STEPS:
            return []
        for judge in (self._added, self._padding, self._future):
            found = judge(case, seen)
            if found is not None:
                return [found]
        return []

    def _added(self, case: Case, seen: list[tuple[int, Event]]) -> Finding | None:
        """A mask of 0 and 1 in numbers is added to the scores."""
        binary = [(step, event) for step, event in seen if event.values.get("binary")]
        if len({step for step, _ in binary}) < STEPS:
            return None
        step, event = binary[0]
        kind = str(event.values.get("mask") or "float32")
        return self._say(
            event,
            step,
            "the attention mask holds 0 and 1 and is added to the scores",
            f"the mask given to {event.values.get('function')} is {kind} with the values 0 and 1 only: a mask of"
            f" numbers is"
            " added to the scores (additive), so 1 shuts nothing and all positions are still looked at. Only a boolean"
            " mask, or -inf, shuts a position",
            [("format of the mask", kind), ("calls of attention like this", len(binary))],
            "make the mask boolean: mask.bool(), or fill it with float('-inf') where nothing is to be seen",
            0.93,
        )

    def _padding(self, case: Case, seen: list[tuple[int, Event]]) -> Finding | None:
        """Open positions all hold the same token, shut ones hold the text."""
        judged = [(step, event) for step, event in seen if event.values.get("only_padding") is not None]
        inverted = [(step, event) for step, event in judged if event.values.get("only_padding")]
        if len({step for step, _ in inverted}) < STEPS or len(inverted) < 0.8 * len(judged):
            return None
        step, event = inverted[0]
        token = event.values.get("token")
        return self._say(
            event,
            step,
            "the padding mask is inverted: attention looks at padding only",
            f"every position that attention may look at holds the token {token} (padding), and the positions with all"
            f" the"
            " other tokens are masked out: the mask is inverted, the opposite of what is meant. key_padding_mask of"
            " nn.MultiheadAttention is True where a position is to be ignored; attn_mask of"
            " scaled_dot_product_attention is True where it is to be seen",
            [("token at every open position", token), ("calls of attention like this", len(inverted))],
            "turn the mask round: ~mask",
            0.93,
        )

    def _future(self, case: Case, seen: list[tuple[int, Event]]) -> Finding | None:
        """A model that is to predict the next token, and no attention in it that shuts the future."""
        site = predicts_next(case)
        of = None if site is None else site.first.get("target_of")  # of several sequences, the one to be continued
        judged = [
            (step, event)
            for step, event in seen
            if event.values.get("future") is not None and (of is None or self._own(event, str(of)))
        ]
        if site is None or not judged or not all(event.values["future"] for _, event in judged):
            return None
        if len({step for step, _ in judged}) < STEPS:
            return None
        step, event = judged[0]
        length = event.values.get("rows")
        inverted = all(event.values.get("past") is False for _, event in judged)
        state = "looks at the future only (the mask is inverted)" if inverted else "has no causal mask"
        return self._say(
            event,
            step,
            "attention sees the tokens that are to be predicted",
            f"the target at each position is the next token of the input, and attention over {length} positions"
            f" {state}:"
            " each position looks at the future, where its own answer stands (a leak). The loss falls far, and the"
            " model"
            " has learnt to copy what it will not have when it is used",
            [
                ("calls of attention that see the future", len(judged)),
                ("loss now", case.loss.last),
                ("entropy of the targets", site.first.get("target_entropy")),
            ],
            "mask the future: is_causal=True, or a mask from torch.triu(torch.ones(T, T), 1).bool() that shuts it",
            0.9,
        )

    @staticmethod
    def _own(event: Event, of: str) -> bool:
        """Whether the keys come from that sequence; another one may be looked at as a whole."""
        keys = event.values.get("keys_of")
        return keys is None or of in str(keys).split(",")

    def _say(
        self, event: Event, step: int, title: str, why: str, facts: list[Fact], fix: str, confidence: float
    ) -> Finding:
        module = event.values.get("module")
        path = module if isinstance(module, str) else None
        return self.finding(
            title,
            confidence=confidence,
            since_step=step,
            where=where(event.source, module=path, op=str(event.values.get("function")), network=event.part),
            why=f"in {called(path or '')}: {why}",
            facts=facts,
            fix=(fix,),
            confirm=("change the last token of an input: no earlier output may change",)
            if "future" in why
            else (f"print the attention weights of {plural(1, 'sample')}: they must be 0 at padding",),
        )
