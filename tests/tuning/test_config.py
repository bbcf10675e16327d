"""Configurations of a search: ours, those of mindoptimizer, and those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.errors import UsageError
from tensight.tuning.config import load, parse

OURS = {"command": "python train.py --lr {lr}", "parameters": {"lr": "1e-4..1e-1 log"}}
MINDOPTIMIZER = """
command: python -u {script}
summary_base_dir: {base}
tuner:
    name: gp
    args:
        method: ucb
target:
    group: metric
    name: Accuracy
    goal: maximize
parameters:
    learning_rate:
        bounds: [0.0001, 0.1]
        type: float
        decimal: 4
        source: system_defined
    batch_size:
        choice: [32, 64, 128]
        type: int
"""


def test_ours_is_short():
    config = parse({**OURS, "parameters": {"lr": "1e-4..1e-1 log", "depth": "2..6", "act": ["relu", "gelu"]}})
    rate, depth, activation = config.parameters
    assert (rate.low, rate.high, rate.log, rate.whole) == (1e-4, 1e-1, True, False)
    assert (depth.low, depth.high, depth.whole) == (2, 6, True)
    assert activation.choices == ("relu", "gelu")
    assert (config.target, config.goal, config.sampler, config.pruner) == ("loss", "minimize", "tpe", "median")


def test_what_to_optimise_is_one_word():
    assert parse({**OURS, "maximize": "accuracy"}).goal == "maximize"
    assert parse({**OURS, "minimize": "error"}).target == "error"


def test_mindoptimizers_file_is_read_as_it_is(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text(MINDOPTIMIZER.format(script="train.py", base=tmp_path / "summaries"))
    config = load(path)
    assert (config.target, config.goal, config.sampler) == ("Accuracy", "maximize", "gp")
    rate, size = config.parameters
    assert (rate.low, rate.high, rate.decimal) == (0.0001, 0.1, 4)
    assert size.choices == (32, 64, 128)
    assert config.summary_base_dir == str(tmp_path / "summaries")
    assert any("ucb" in note for note in config.notes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": ""}, "needs a command"),
        ({"parameters": {}}, "needs parameters"),
        ({"parameters": {"lr": "fast"}}, "is no range"),
        ({"parameters": {"lr": "3..1"}}, "must be greater"),
        ({"parameters": {"lr": "0..1 log"}}, "begin above 0"),
        ({"parameters": {"l r": "0..1"}}, "is no name"),
        ({"parameters": {"lr": []}}, "at least one value"),
        ({"parameters": {"lr": {"bounds": [0, 1]}}}, "need a type"),
        ({"parameters": {"lr": {"bounds": [0], "type": "float"}}}, "two numbers"),
        ({"parameters": {"lr": {"bounds": [0, 1], "choice": [1], "type": "float"}}}, "either bounds or choice"),
        ({"trials": 0}, "at least 1"),
        ({"trials": True}, "at least 1"),
        ({"sampler": "magic"}, "is none of"),
        ({"pruner": "magic"}, "is none of"),
        ({"tuner": {"name": "gp", "args": {"method": "best"}}}, "none of ucb, pi, ei"),
        ({"target": {"goal": "maximize"}}, "target needs a name"),
        ({"target": {"name": "a", "goal": "more"}}, "neither minimize nor maximize"),
        ({"minimize": "a", "maximize": "b"}, "give one of"),
        ({"pattern": "("}, "no regular expression"),
        ({"colour": "red"}, "is no key"),
        ({"prune_findings": 3}, "true, false or a list"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(change, says):
    with pytest.raises(UsageError, match="config: ") as error:
        parse({**OURS, **change})
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "!!python/object/apply:os.system ['true']", "just words"])
def test_files_that_are_no_search_are_refused(tmp_path: Path, text: str):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"bad\.yaml"):
        load(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.yaml")
