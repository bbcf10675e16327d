"""Samplers that draw a few samples again and again."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, where
from tensight.records import Finding

TIMES = 10  # how often each sample that came up has come up
SHARE = 0.2  # of the samples that a sampler promises
FEWEST = 200  # samples drawn before one may say so


class FewSamplesDrawn(Rule):
    """A training that sees a small part of its data set only, over and over."""

    fault = "few_distinct_samples"
    category = "data"
    finds = "A loader that draws the same few samples of its data set again and again, and never the others."
    evidence = ("numbers of the samples that the sampler names", "samples in the data set and in the sampler")
    explains = frozenset({"same_batch_every_step", "labels_shuffled_against_inputs", "constant_labels"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, seen in case.batches.loaders.items():
            part = case.parts.get(("loader", name))
            if part is None or seen.drawn < FEWEST or seen.drawn < TIMES * seen.distinct:
                continue
            # What a sampler chooses on purpose (a subset, a share of the ranks) counts as its whole.
            promised, weighed = part.settings.get("sampled"), part.settings.get("weighed")
            samples = part.settings.get("samples")
            if not isinstance(promised, int) or seen.distinct > SHARE * promised:
                continue
            if seen.count < 0.9 * case.order.updates:
                continue  # other data is in the training, too
            batch = part.settings.get("batch_size")
            same = isinstance(batch, int) and seen.distinct <= batch and seen.restarts > 0.9 * seen.count
            odd = isinstance(weighed, int) and isinstance(samples, int) and weighed < samples
            if odd:
                because = (
                    f"{part.settings.get('sampler')} has {weighed} weights for {samples} samples: it wants a weight for"
                    " each sample, and a weight for each class makes it draw the first samples only"
                )
                fix = "give a weight for each sample: WeightedRandomSampler(class_weights[labels], len(labels))"
            elif same:
                because = (
                    "the loader is started anew for each step and its random numbers begin anew too, so that every step"
                    " trains on the same batch"
                )
                fix = "loop over the loader itself (for x, y in loader), and seed random numbers once"
            else:
                because = "the sampler, or a loop that leaves off early, never comes to the others"
                fix = "look at what the sampler yields: list(loader.sampler)[:100]"
            yield self.finding(
                f"only {seen.distinct} of {promised} samples are ever drawn",
                fault="same_batch_every_step" if same and not odd else "",
                confidence=0.92,
                since_step=0,
                where=where(part.source or seen.source, op="DataLoader"),
                why=f"{name} has drawn {plural(seen.drawn, 'sample')} so far, but only {seen.distinct} distinct ones of"
                f" {promised}: each came {number(seen.drawn / seen.distinct)} times, the same data again and again, and"
                f" the training learns them by heart. {because}",
                facts=[
                    ("samples drawn", seen.drawn),
                    ("distinct samples among them", seen.distinct),
                    ("samples in the data set", samples),
                    ("samples that the sampler should draw", promised),
                    ("weights of the sampler", weighed),
                ],
                fix=(fix,),
                confirm=("count what is drawn: len(set(loader.sampler))",),
            )
