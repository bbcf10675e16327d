"""What is concluded where a framework shows the inside of a step now and then, and absent gradients as zeros."""

from __future__ import annotations

import msgspec

from tensight.diagnosis.dialects import translated
from tensight.records import Event, Network, Observation, Parameter, Part
from tests.diagnosis.builders import Layer, Run, stats

ZEROS = {"absent_gradients": "zeros"}  # as MindSpore's optimizers have it


def outside(run: Run) -> list[Observation]:
    """A step of which only weights are seen."""
    seen = run.observations()
    kinds = {number: info.kind for number, info in run._infos.items()}
    return [one for one in seen if kinds[one.tensor] == "weight"]


def dead(looks: int, after: int, revived: bool = False) -> Run:
    run = Run(settings=ZEROS)
    run.layers[1].activation = "relu"
    run.layers[1].active = stats(0, 512)
    for layer in run.layers[:2]:
        layer.gradient = stats(0, 256)
        layer.update = 0.0
    run.stall(looks)
    for layer in run.layers[:2]:
        layer.gradient = 0.01 if revived else stats(0, 256)
    gradients = {number for number, info in run._infos.items() if info.kind == "gradient"}
    for _ in range(after):
        with_gradients = [one for one in run.observations() if one.tensor in gradients]
        run.train(1.4, observations=with_gradients)
    return run


def test_a_dead_layer_that_was_last_looked_at_long_ago_is_still_named() -> None:
    (finding,) = dead(looks=10, after=30).end()
    assert (finding.fault, finding.since_step) == ("dead_relu", 0)
    assert finding.where.parameter == "fc2.weight"


def test_a_layer_that_has_had_gradients_since_lives() -> None:
    assert "dead_relu" not in dead(looks=10, after=30, revived=True).faults()


def test_a_compiled_network_that_nobody_looked_into_is_left_in_peace() -> None:
    run = Run(settings=ZEROS)
    for network in list(run.engine.case.networks.values()):
        run.engine.network(msgspec.structs.replace(network, compiled=True))
    for step in range(30):
        run.train(1.4 - 0.02 * step, observations=outside(run))
    assert run.faults() == []


def test_a_network_whose_weights_move_has_a_loss_that_is_connected() -> None:
    run = Run()
    for step in range(30):
        run.train(1.4 - 0.02 * step, observations=outside(run))
    assert run.faults() == []


def over_time(factor: float, loss: float) -> Run:
    """A relu that a hand-written recurrence calls once per time step."""
    run = Run([Layer("inp"), Layer("out")], settings=ZEROS)
    run.loss_values = {"function": "mse_loss", "prediction_shape": "32x1", "target_shape": "32x1"}
    run.loss_values |= {"target_variance": 0.25, "reduction": "mean"}
    for layer in run.layers:
        layer.gradient = 1e4 * factor

    def step() -> list[Observation]:
        seen = run.observations()
        calls = [
            Observation(
                run.tensor("activation", "", f"relu.{at}", type="relu"), 0, stats(0.3 * factor**at if at else 0)
            )
            for at in range(20)  # a state begins with zeros
        ]
        place = next(at for at, one in enumerate(seen) if run._infos[one.tensor].node == "out")
        both = [*seen[:place], *calls, *seen[place:]]
        return [msgspec.structs.replace(one, order=at) for at, one in enumerate(both)]

    for at in range(12):
        run.train(loss * 0.9**at, observations=step())
    return run


def test_a_signal_that_grows_from_call_to_call_of_a_function_explodes() -> None:
    (finding,) = over_time(1.4, loss=1e5).end()
    assert finding.fault == "exploding_gradient"
    assert "called 19 times in a row" in finding.why
    assert "ops.clip_by_global_norm(grads" in " ".join(finding.fix)


def test_a_signal_that_stays_as_it_is_from_call_to_call_does_not() -> None:
    assert "exploding_gradient" not in over_time(1.01, loss=1e5).faults()


def zeros(behind: bool) -> Run:
    """Two layers of zeros after a gate; `behind`: one behind the other, so that the first gets no gradient at first."""
    run = Run([Layer("gate"), Layer("up"), Layer("down")])
    for layer in run.layers[1:]:
        layer.start = stats(0, 256)
        layer.weight = 0.01
    run.layers[1].gradient = stats(0, 256) if behind else 0.01
    run.layers[1].update = 0.0 if behind else 1e-3
    run.train(1.4)
    run.layers[1].gradient, run.layers[1].update = 0.01, 1e-3
    return run.learn(20)


def test_layers_of_zeros_one_behind_the_other_are_named_though_another_layer_runs_first() -> None:
    (finding,) = zeros(behind=True).end()
    assert finding.fault == "zero_init"
    assert finding.where.parameter == "up.weight"


def test_layers_of_zeros_that_gradients_reach_at_once_are_left_alone() -> None:
    assert zeros(behind=False).faults() == []


def two_networks(cut: bool) -> Run:
    """A generator in front of a discriminator, each with an optimizer of its own."""
    run = Run(settings=ZEROS)
    layer = Parameter("net.0.weight", (16, 4), "float32", module="net.0", optimizer="Adam-2")
    run.engine.network(Network("gen", "Generator", (), (layer,)))
    run.engine.part(Part("optimizer", "Adam-2", "Adam", {"lr": 0.1, **ZEROS}, None, ("gen:net.0.weight",)))
    ids = {}
    for at, (kind, slot) in enumerate([("output", "output.0"), ("gradient", "weight"), ("weight", "weight")]):
        ids[kind] = 1000 + at
        like = run._infos[run.tensor("output", "fc1", "output.0", type="Linear")]
        info = msgspec.structs.replace(like, id=1000 + at, kind=kind, node="net.0", slot=slot, network="gen")
        run.engine.tensor(info)
    for step in range(12):
        seen = [Observation(ids["output"], 0, stats(1.0)), *run.observations()]
        seen.append(Observation(ids["gradient"], 90, stats(0 if cut else 0.1), "backward"))
        events = [Event("forward", part="gen", values={"training": True, "grad": True}), *run.events()]
        events.append(Event("optimizer_step", part="Adam-2", values={"lr": 0.1}))
        run.train(1.4 - 0.02 * step, observations=seen, events=events)
    return run


def test_a_network_in_front_that_gets_zeros_alone_is_cut_off() -> None:
    (finding,) = two_networks(cut=True).end()
    assert finding.fault == "detach_breaks_graph"
    assert finding.where.network == "gen"
    assert "ops.stop_gradient()" in finding.why
    assert "torch" not in " ".join([finding.why, *finding.fix, *finding.confirm])


def test_a_network_in_front_that_gets_gradients_is_not() -> None:
    assert two_networks(cut=False).faults() == []


def test_advice_is_in_the_words_of_the_framework_that_trains() -> None:
    assert translated("print(model.training) right before loss.backward()") == (
        "print(net.training) inside the function whose gradient is taken"
    )
    assert translated("print(fc.weight.grad): it is None after backward") == (
        "print the gradient of fc.weight: it is 0 everywhere"
    )
    assert translated("drop nn.init.constant_/ones_ for weights, or use nn.init.kaiming_normal_") == (
        "leave out weight_init='ones' or a number, or use weight_init='HeNormal'"
    )
    assert translated("call teacher.eval() once; with torch.no_grad(): p -= lr * p.grad") == (
        "call teacher.set_train(False) once; p.set_data(p - lr * gradient)"
    )


def frozen_in_front(loss: float) -> list[str]:
    layers = [Layer("encoder.0", (64, 64)), Layer("encoder.1", (64, 64)), Layer("head", (4, 64))]
    for layer in layers[:2]:
        layer.trainable = layer.held = False
        layer.gradient, layer.update = None, 0.0
        layer.weight = 0.125 / 2
        layer.start = stats(0.0625, 4096, min=-0.125, max=0.125, std=0.125 * 3**-0.5)
    run = Run(layers)
    return run.stall(60).faults() if loss == 1.4 else run.learn(60, end=loss).faults()


def test_most_of_a_network_frozen_as_it_was_made_while_nothing_is_learnt_is_named() -> None:
    assert frozen_in_front(1.4) == ["frozen_parameters"]


def test_everything_that_is_frozen_is_counted_biases_too() -> None:
    layers = [Layer("encoder", (64, 64)), Layer("encoder.shift", (64,)), Layer("head", (4, 64))]
    for layer in layers[:2]:
        layer.trainable = layer.held = False
        layer.gradient, layer.update = None, 0.0
        layer.weight = 0.125 / 2
        layer.start = stats(0.0625, 4096, min=-0.125, max=0.125, std=0.125 * 3**-0.5)
    run = Run(layers).stall(60)
    assert run.faults() == ["frozen_parameters"]
    assert run.engine.findings[0].why.startswith("2 of 3 parameters (encoder.weight, encoder.shift.weight;")


def test_a_frozen_front_whose_head_stays_near_guessing_is_named() -> None:
    assert frozen_in_front(1.2) == ["frozen_parameters"]  # of four classes: ln 4 is 1.39


def test_a_frozen_front_whose_head_learns_may_be_meant() -> None:
    assert frozen_in_front(0.4) == []
