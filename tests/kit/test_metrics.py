"""Metrics equal scikit-learn and torchmetrics: in one pass, in batches, over one rank and four."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensight.errors import UsageError
from tensight.kit.metrics import (
    AUC,
    F1,
    MAE,
    MSE,
    NAMES,
    ROC,
    Accuracy,
    BleuScore,
    ConfusionMatrix,
    CosineSimilarity,
    Dice,
    Fbeta,
    Loss,
    Metric,
    Perplexity,
    Precision,
    Recall,
    Tolerance,
    TopKCategoricalAccuracy,
    metrics_of,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torchmetrics.functional as tm
    import torchmetrics.functional.text

CLASSES = 4
calm = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), max_examples=15
)
Arrays = tuple[np.ndarray, np.ndarray]


def scores(random: np.random.Generator, count: int) -> Arrays:
    return random.dirichlet(np.ones(CLASSES), count), random.integers(0, CLASSES, count)


def binary(random: np.random.Generator, count: int) -> Arrays:
    labels = random.integers(0, 2, count)
    labels[:2] = (0, 1)  # both classes are there
    return random.random(count).round(2), labels


def masks(random: np.random.Generator, count: int) -> Arrays:
    first, second = random.integers(0, 2, (count, 3)), random.integers(0, 2, (count, 3))
    first[0], second[0] = 1, 1
    return first, second


def values(random: np.random.Generator, count: int) -> Arrays:
    return random.normal(size=(count, 3)), random.normal(size=(count, 3))


def best(x: np.ndarray) -> np.ndarray:
    return x.argmax(1)


def by_class(function: Callable[..., Any], **options: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    return lambda x, y: function(y, best(x), labels=range(CLASSES), average=None, zero_division=0, **options)


def perplexity(x: np.ndarray, y: np.ndarray) -> float:
    return float(tm.text.perplexity(torch.tensor(np.log(x))[None], torch.tensor(y)[None]))


def roc(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.concatenate(sk.roc_curve(y, x)[:2])


def roc_of(metric: Metric) -> np.ndarray:
    return np.concatenate(metric.eval()[:2])


CASES: dict[str, tuple[Callable[[], Metric], Callable[..., Arrays], Callable[..., Any]]] = {
    "accuracy": (Accuracy, scores, lambda x, y: sk.accuracy_score(y, best(x))),
    "precision": (Precision, scores, by_class(sk.precision_score)),
    "recall": (Recall, scores, by_class(sk.recall_score)),
    "f1": (F1, scores, by_class(sk.f1_score)),
    "fbeta": (lambda: Fbeta(0.5), scores, by_class(sk.fbeta_score, beta=0.5)),
    "top-2": (
        lambda: TopKCategoricalAccuracy(2),
        scores,
        lambda x, y: sk.top_k_accuracy_score(y, x, k=2, labels=range(CLASSES)),
    ),
    "confusion": (
        lambda: ConfusionMatrix(CLASSES),
        scores,
        lambda x, y: sk.confusion_matrix(y, best(x), labels=range(CLASSES)),
    ),
    "perplexity": (Perplexity, scores, perplexity),
    "auc": (AUC, binary, lambda x, y: sk.roc_auc_score(y, x)),
    "roc": (ROC, binary, roc),
    "dice": (lambda: Dice(0), masks, lambda x, y: sk.f1_score(y.ravel(), x.ravel())),
    "mae": (MAE, values, lambda x, y: sk.mean_absolute_error(y, x)),
    "mse": (MSE, values, lambda x, y: float(tm.mean_squared_error(torch.tensor(x), torch.tensor(y)))),
    "tolerance": (lambda: Tolerance(0.5), values, lambda x, y: np.mean(np.abs(x - y) <= 0.5)),
    "cosine": (
        CosineSimilarity,
        values,
        lambda x, y: float(tm.cosine_similarity(torch.tensor(x), torch.tensor(y), reduction="mean")),
    ),
}


def value(metric: Metric) -> Any:
    return roc_of(metric) if type(metric) is ROC else metric.eval()


@pytest.mark.parametrize("name", CASES)
@calm
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 60), cuts=st.lists(st.integers(1, 59), max_size=6))
def test_a_metric_equals_the_librarys_in_one_pass_in_batches_and_over_ranks(
    name: str, seed: int, count: int, cuts: list[int]
) -> None:
    make, data, library = CASES[name]
    x, y = data(np.random.default_rng(seed), count)
    wanted = library(x, y)
    whole = make()
    whole.update(x, y)
    np.testing.assert_allclose(value(whole), wanted, rtol=1e-5, atol=1e-7)
    places = sorted({cut for cut in cuts if cut < count})
    parts = list(zip(np.split(x, places), np.split(y, places)))
    batched = make()
    for one, label in parts:
        batched.update(torch.tensor(one), torch.tensor(label))
    np.testing.assert_allclose(value(batched), value(whole), rtol=1e-9, atol=1e-12)
    ranks = [make() for _ in range(4)]
    for number, (one, label) in enumerate(parts):
        ranks[number % 4].update(one, label)
    merged = ranks[0].merged([rank.state() for rank in ranks])
    np.testing.assert_allclose(value(merged), value(whole), rtol=1e-9, atol=1e-12)


@calm
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40))
def test_multilabel_metrics_equal_scikit_learn(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(0, 2, (count, 3)), random.integers(0, 2, (count, 3))
    for make, function in ((Precision, sk.precision_score), (Recall, sk.recall_score), (F1, sk.f1_score)):
        metric = make("multilabel")
        metric.update(x, y)
        np.testing.assert_allclose(metric.eval(), function(y, x, average=None, zero_division=0))
    accuracy = Accuracy("multilabel")
    accuracy.update(x, y)
    assert accuracy.eval() == pytest.approx(sk.accuracy_score(y, x))


def test_bleu_equals_torchmetrics_over_two_ranks() -> None:
    candidates = [["the", "cat", "is", "on", "the", "mat"], ["a", "dog", "runs", "in", "the", "park"]]
    references = [[["there", "is", "a", "cat", "on", "the", "mat"]], [["a", "dog", "runs", "in", "a", "park"]]]
    ranks = [BleuScore(2), BleuScore(2)]
    for rank, candidate, wanted in zip(ranks, candidates, references):
        rank.update([candidate], [wanted])
    joined = [[" ".join(words) for words in many] for many in references]
    library = torchmetrics.functional.text.bleu_score([" ".join(one) for one in candidates], joined, 2)
    assert ranks[0].merged([rank.state() for rank in ranks]).eval() == pytest.approx(float(library))


def test_segmentation_scores_have_their_classes_in_the_second_dimension() -> None:
    random = np.random.default_rng(1)
    x, y = random.random((2, CLASSES, 5, 5)), random.integers(0, CLASSES, (2, 5, 5))
    metric = Accuracy()
    metric.update(x, y)
    assert metric.eval() == pytest.approx(sk.accuracy_score(y.ravel(), x.argmax(1).ravel()))


def test_a_later_batch_may_bring_a_new_class() -> None:
    metric = Recall()
    metric.update([0, 1], [0, 1])
    metric.update([2, 2], [2, 1])
    np.testing.assert_allclose(metric.eval(), [1.0, 0.5, 1.0])


def test_clear_begins_anew() -> None:
    metric = Loss()
    metric.update(5.0)
    metric.clear()
    metric.update(1.0)
    assert metric.eval() == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_every_name_gives_a_metric_that_says_when_it_saw_nothing(name: str) -> None:
    (metric,) = metrics_of([name]).values()
    with pytest.raises(UsageError, match="nothing was given to update"):
        metric.eval()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics_of(["acuracy"]), "there is no 'acuracy'"),
        (lambda: metrics_of({"mine": 3}), "'mine' has no clear, update and eval"),
        (lambda: Accuracy().update([1, 2], [1, 2, 3]), "do not fit"),
        (lambda: Accuracy().update([[0.5, 0.5]]), "takes a prediction and a label"),
        (lambda: Accuracy("other"), "none of classification, multilabel"),
        (lambda: Accuracy().update([0.5, 1], [0, 1]), "whole numbers"),
        (lambda: MAE().update([1.0], [1.0, 2.0]), "must be the same"),
        (lambda: Fbeta(0), "above 0"),
        (lambda: Loss().update("much"), "takes one loss"),
        (lambda: ConfusionMatrix(2).update([3], [0]), "beyond the 2"),
    ],
)
def test_wrong_input_gets_one_sentence(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


RANKED = """
import sys
import torch, torch.distributed as dist
from tensight.kit import Model
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
scores = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
labels = torch.tensor([0, 1, 1])
mine = slice(0, 1) if rank == 0 else slice(1, 3)
model = Model(torch.nn.Identity(), torch.nn.CrossEntropyLoss(), metrics={"accuracy"})
print(round(model.eval([(scores[mine], labels[mine])])["accuracy"], 4), flush=True)
dist.destroy_process_group()
"""


def test_an_evaluation_over_two_ranks_counts_the_data_of_both(tmp_path: Path) -> None:
    script = tmp_path / "ranked.py"
    script.write_text(RANKED)
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        assert [process.communicate(timeout=280)[0] for process in started] == ["0.6667\n", "0.6667\n"]
    finally:
        for process in started:
            process.kill()
            process.wait()
