"""Weights that start where they cannot learn."""

from __future__ import annotations

import msgspec

from tensight.records import Module, Network, Observation, Parameter
from tests.diagnosis.builders import Layer, Run, constant, stats


def test_layers_that_start_and_stay_at_zero_are_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.weight = 0.0
        layer.start = constant(0.0, 256)
        layer.gradient = 0.0
        layer.update = 0.0
    (finding,) = run.stall(40).end()
    assert (finding.fault, finding.since_step) == ("zero_init", 0)
    assert finding.where.parameter == "fc1.weight"
    assert "zero" in finding.why


def test_one_number_in_two_layers_in_a_row_is_a_symmetry() -> None:
    run = Run()
    for layer in run.layers:
        layer.start = constant(0.5, 256)
    (finding,) = run.stall(40).end()
    assert (finding.fault, finding.where.parameter) == ("constant_init_symmetry", "fc1.weight")


def test_one_constant_layer_alone_is_no_symmetry() -> None:
    run = Run()
    run.layers[2].start = constant(0.5, 256)
    assert run.learn(30).faults() == []


def test_weights_far_too_large_with_saturated_units_are_named() -> None:
    run = Run([Layer("fc1", weight=8.0), Layer("fc2", weight=8.0), Layer("head", weight=8.0)])
    run.layers[0].activation = "tanh"
    run.layers[0].active = stats(0.98)
    (finding,) = run.stall(40, loss=44.0).end()
    assert (finding.fault, finding.since_step) == ("huge_init", 0)
    assert "saturated" in finding.why


def _tied(size: float) -> Run:
    """A table of words that is the last layer's weight too."""
    run = Run()
    table = Parameter("words.weight", (40, 128), "float32", role="embedding", module="words", optimizer="SGD")
    head = Parameter("out.weight", (40, 128), "float32", module="out", optimizer="SGD", tied_to="words.weight")
    parts = (Module("", "Net"), Module("words", "Embedding"), Module("out", "Linear"))
    run.engine.network(Network("net", "Net", parts, (table, head)))
    weight = run.tensor("weight", "words", "weight", shape=(40, 128))
    for at in range(40):
        before = [Observation(weight, 900, stats(size, 5120))] if at == 0 else []
        run.train(88.0 - 2 * at, observations=[*run.observations(), *before])
    return run


def test_a_table_of_words_that_is_too_large_for_the_last_layer_it_is_tied_to_is_named() -> None:
    (finding,) = _tied(0.8).end()
    assert (finding.fault, finding.where.parameter) == ("huge_init", "out.weight")
    assert "words.weight" in finding.why


def test_a_shared_table_of_the_usual_size_is_left_alone() -> None:
    assert "huge_init" not in _tied(0.02).faults()


def test_large_weights_that_do_no_harm_are_left_alone() -> None:
    run = Run([Layer("fc1", weight=2.0), Layer("fc2"), Layer("head")])
    assert run.learn(30).faults() == []


def test_a_layer_that_is_added_while_a_training_goes_on_is_known_since_then() -> None:
    run = Run()
    run.learn(10)
    run.layers.append(Layer("adapter"))
    run.tell_network()
    known = {entry.name: entry.since for entry in run.engine.case.ledger}
    assert (known["fc1.weight"], known["adapter.weight"]) == (0, 10)


def recommender(start: float, first: float) -> list[str]:
    """Two tables whose vectors are multiplied; the first loss is given, guessing would cost ln 4."""
    run = Run([Layer("user", (50, 16), weight=start), Layer("item", (40, 16), weight=start)])
    tables = tuple(
        Parameter(f"{name}.weight", (rows, 16), "float32", module=name, role="embedding", optimizer="SGD")
        for name, rows in (("user", 50), ("item", 40))
    )
    known = run.engine.case.networks["net"]
    run.engine.network(msgspec.structs.replace(known, parameters=tables))
    return run.learn(40, first, 0.5 * first).faults()


def test_embeddings_that_start_too_large_are_named_when_the_first_loss_shows_it() -> None:
    assert recommender(6.4, 200.0) == ["huge_init"]


def test_embeddings_as_torch_makes_them_have_no_finding() -> None:
    assert recommender(0.8, 12.0) == []
    assert recommender(6.4, 1.5) == []
