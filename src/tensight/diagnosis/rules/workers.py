"""Loader workers that do the same work."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import line, plural, where
from tensight.records import Finding

_NAMES = {"numpy": "NumPy's global generator", "random": "Python's random", "torch": "torch's generator"}


class DuplicateAugmentation(Rule):
    """Workers whose random generators are in the same state."""

    fault = "duplicate_augmentation_across_workers"
    category = "data"
    finds = "Loader workers that draw the same random numbers, so that augmentation repeats from worker to worker."
    evidence = ("states of random generators in each worker, before and after its first batches",)
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        seen = case.noted.of("workers")
        if not seen:
            return
        _step, event = seen[0]
        name = str(event.values.get("generator"))
        own = name.startswith("dataset.")
        what = f"the generator {name} that the data set holds" if own else _NAMES.get(name, name)
        because = (
            "it was made once, before the workers were started, and each worker has a copy of it"
            if own
            else "each worker was given the same seed"
        )
        part = case.parts.get(("loader", event.part))
        made = line(part.source) if part is not None else ""
        yield self.finding(
            f"loader workers draw the same random numbers from {name}",
            confidence=0.94,
            since_step=0,
            where=where(event.source, op="DataLoader"),
            why=f"{event.values.get('same')} of {event.values.get('workers')} workers had {what} in the same state"
            f" before"
            f" their batches and drew from it: {because}. So augmentation is identical (duplicated) in all workers"
            + (", and again the same in every epoch" if own else ""),
            facts=[
                ("workers with the same state", event.values.get("same")),
                ("workers", event.values.get("workers")),
                ("generator", name),
                ("loader made in", made or None),
                ("times seen", len(seen)),
            ],
            fix=(
                "make the generator in the worker: np.random.default_rng(torch.initial_seed() % 2**32) in"
                " worker_init_fn or"
                " at the first __getitem__"
                if own
                else "seed each worker differently: worker_init_fn=lambda i: np.random.seed(torch.initial_seed() %"
                " 2**32)",
            ),
            confirm=("return the random numbers beside each sample and compare the first batches of two workers",),
        )


class DuplicateSamples(Rule):
    """An iterable data set that every worker walks through as a whole."""

    fault = "duplicate_samples_across_workers"
    category = "data"
    finds = "An iterable data set that is not divided among the workers: each of them hands out all of it."
    evidence = ("batches that come again inside one epoch", "number of workers")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, seen in case.batches.loaders.items():
            part = case.parts.get(("loader", name))
            workers = part.settings.get("workers") if part is not None else None
            if part is None or not isinstance(workers, int) or workers < 2:
                continue
            expected = (workers - 1) / workers
            if seen.judged < 8 or seen.repeats < 0.7 * expected * seen.judged:
                continue
            yield self.finding(
                "each loader worker hands out the whole data set",
                confidence=0.9,
                since_step=max(0, seen.first_repeat),
                where=where(part.source or seen.source, op="DataLoader"),
                why=f"{seen.repeats} of {plural(seen.judged, 'batch')} are exact repeats of an earlier one of the"
                f" same epoch,"
                f" with {workers} workers: every worker runs through all of the data set (not divided by worker), so"
                f" each"
                f" sample is seen {workers} times (duplicated)",
                facts=[("repeated batches", seen.repeats), ("batches looked at", seen.judged), ("workers", workers)],
                fix=(
                    "divide the data in __iter__: info = torch.utils.data.get_worker_info(), and take every"
                    " info.num_workers-th sample from info.id on",
                ),
            )
