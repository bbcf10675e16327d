"""Advice on slow programs and their fast twins, judged from what was recorded of them.

`benchmarks/slow_programs.py --record` takes the records anew, and judges by the clock.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tensight.profiling import RULES, Advice, Reading, advise
from tensight.profiling.advice.python_in_step import PythonInStep
from tensight.profiling.document import text
from tensight.profiling.ranks import slow_rank
from tensight.records import Source
from tensight.records.timing import (
    Break,
    Calls,
    Collecting,
    CompileTime,
    LineTime,
    LoaderTime,
    LoopLine,
    OperatorTime,
    Profile,
    StepTime,
)
from tests.profiling.slow import FAULTS, HELD_OUT, RECORDED, causes, lines, marked


def recorded(name: str, kind: str) -> list[Advice]:
    found = msgspec.json.decode((RECORDED / f"{name}-{kind}.json").read_bytes(), type=Profile)
    return advise(Reading(found))


@pytest.mark.parametrize("name", [*FAULTS, *HELD_OUT])
def test_the_first_advice_names_cause_and_line(name: str):
    first = recorded(name, "slow")[0]
    assert first.fault in causes(name)
    assert first.source is not None
    assert Path(first.source.file).name == f"{name}.py"
    assert first.source.line in lines(name)
    assert first.gain > 0
    assert first.fix
    assert first.evidence


@pytest.mark.parametrize("name", [*FAULTS, *HELD_OUT])
def test_the_fast_twin_is_left_alone(name: str):
    assert recorded(name, "fast") == []


def test_an_advice_is_a_finding_of_category_resource():
    finding = recorded("collector", "slow")[0].finding(3)
    assert (finding.category, finding.since_step, finding.where.line) == ("resource", 3, marked("collector"))


def test_every_rule_says_what_it_looks_for_and_stands_on_the_page():
    page = text()
    assert len(RULES) >= 14
    for rule in RULES:
        for part in (rule.symptom, rule.measure, rule.threshold, rule.advice):
            assert part in page


def test_a_profile_without_anything_gets_no_advice():
    for profile in (Profile(), Profile(framework="torch"), Profile(framework="mindspore", device="ascend")):
        assert {one.fault for one in advise(Reading(profile))} <= {"no_mixed_precision"}


def test_time_that_is_scattered_below_a_line_of_the_loop_is_blamed_on_it():
    def said(most: int) -> int:
        call, inside = Source("train.py", 30, "forest(48)"), Source("train.py", 7, "return x")
        steps = tuple(StepTime(number, "clock", 0.1, forward=0.06, rest=0.04) for number in range(10))
        loop = (LoopLine(call, 50, inside, most), LoopLine(Source("train.py", 31), 10, Source("train.py", 31), 10))
        found = PythonInStep().look(Reading(Profile(steps=steps, loop=loop)))
        assert found is not None
        assert found.source is not None
        return found.source.line

    assert said(5) == 30
    assert said(40) == 7


def test_a_function_that_torch_compile_gives_up_comes_before_breaks():
    given_up = Break("a break in a loop", source=Source("model.py", 23), skipped="forward")
    breaks = (Break("print", 3, Source("model.py", 5)), given_up)
    (found,) = advise(Reading(Profile(compiling=CompileTime(breaks=breaks))))
    assert found.fault == "graph_breaks"
    assert "forward()" in found.title
    assert found.source == given_up.source


def test_gradients_that_are_turned_back_count_as_changes_of_layout():
    def said(copied: float) -> list[Advice]:
        calls = (Calls("aten.clone", 8, 0.1, Source("model.py", 24), part="forward", detail="another layout"),)
        copies = OperatorTime("aten::copy_", "32x24x32x32, 32x24x32x32", "float32", 16, copied)
        cast = OperatorTime("aten::copy_", "32x24x32x32, 32x24x32x32", "float32, bfloat16", 16, 0.5)
        facts = {"located_seconds": 1.0, "located_steps": 2, "operator_seconds": 1.0}
        return advise(Reading(Profile(copies=calls, operators=(copies, cast), facts=facts)))

    assert [one.fault for one in said(0.2)] == ["layout_changes"]
    assert said(0.1) == []


def test_large_images_are_no_tiny_batch_however_little_is_computed_with_them():
    def said(shapes: str) -> list[str]:
        steps = tuple(StepTime(number, "clock", 0.01, forward=0.01, batch=8) for number in range(5))
        products = OperatorTime("aten::conv2d", shapes, "float32", 30, 0.01, flops=300_000 * 30)
        profile = Profile(steps=steps, operators=(products,), facts={"traced_steps": 1})
        return [one.fault for one in advise(Reading(profile))]

    assert said("8x16, 16x16") == ["tiny_batches"]
    assert said("8x16x32x32, 16x1x1x1, 16") == []


# rules for devices and modes that are not here


def steps(count: int = 20, **parts: float) -> tuple[StepTime, ...]:
    return tuple(StepTime(number, "clock", sum(parts.values()), **parts) for number in range(count))


def faults(profile: Profile) -> list[str]:
    return [one.fault for one in advise(Reading(profile))]


def test_an_accelerator_that_computes_in_float32_is_told_so():
    single = OperatorTime("aten::mm", "64x64, 64x64", "float32", 10, 0.1, 0.1)
    profile = Profile(framework="torch", device="cuda", steps=steps(forward=0.1), operators=(single,))
    assert "no_mixed_precision" in faults(profile)
    half = msgspec.structs.replace(single, dtypes="bfloat16")
    assert "no_mixed_precision" not in faults(msgspec.structs.replace(profile, operators=(half,)))


def test_sizes_that_do_not_fit_matrix_units_are_found_on_accelerators_only():
    odd = OperatorTime("aten::mm", "64x100, 100x63", "bfloat16", 10, 0.1, 0.1)
    profile = Profile(
        framework="torch",
        device="cuda",
        steps=steps(forward=0.1),
        operators=(odd,),
        facts={"operator_seconds": 0.1},
    )
    assert faults(profile) == ["unaligned_shapes"]
    assert faults(msgspec.structs.replace(profile, device="cpu")) == []


def test_a_shape_that_is_much_slower_than_others_is_found():
    good = OperatorTime("aten::mm", "1024x1024", "float32", 1, 0.01, 0.01, flops=2_000_000_000)
    bad = OperatorTime("aten::mm", "1024x1024", "float64", 1, 0.2, 0.2, flops=2_000_000_000)
    profile = Profile(
        framework="torch", steps=steps(forward=0.1), operators=(bad, good), facts={"operator_seconds": 0.21}
    )
    (advice,) = advise(Reading(profile))
    assert (advice.fault, "float64" in advice.title) == ("slow_shape", True)


def test_one_thread_is_only_told_when_there_is_work_for_more():
    facts = {"threads": 1, "cores": 8, "flops": 5e9, "traced_steps": 1}
    profile = Profile(framework="torch", steps=steps(forward=0.1), facts=facts)
    assert faults(profile) == ["one_thread"]
    assert faults(msgspec.structs.replace(profile, facts={**facts, "flops": 1e6})) == []
    assert faults(msgspec.structs.replace(profile, facts={**facts, "threads": 8})) == []


@pytest.mark.parametrize(
    ("facts", "device", "fault"),
    [
        ({"mode": "pynative"}, "cpu", "eager_mode"),
        ({"mode": "graph", "sink": False, "compiled_calls": 9}, "ascend", "sink_mode_off"),
        ({"mode": "graph", "graph_kernel": False, "compiled_calls": 9}, "ascend", "kernel_fusion_off"),
        ({"mode": "graph", "graphs_late": 4, "compiled_calls": 9}, "cpu", "recompilation_storm"),
    ],
)
def test_mindspores_hints(facts, device, fault):
    profile = Profile(framework="mindspore", device=device, steps=steps(forward=0.1), facts=facts)
    assert fault in faults(profile)
    healthy = {"mode": "graph", "sink": True, "graph_kernel": True, "compiled_calls": 9, "half_parameters": 1}
    assert faults(msgspec.structs.replace(profile, facts=healthy)) == []


def test_converting_operators_of_mindspore_are_told_from_those_that_compute():
    rows = (
        OperatorTime("MatMul", "fc", "", 10, 0.08, 0.08),
        OperatorTime("Cast", "fc/Cast-op3", "", 20, 0.02, 0.02),
    )
    facts = {"mode": "graph", "compiled_calls": 9, "operator_seconds": 0.1, "traced_steps": 10}
    profile = Profile(framework="mindspore", steps=steps(forward=0.1), operators=rows, facts=facts)
    (advice,) = advise(Reading(profile))
    assert (advice.fault, advice.op) == ("conversion_operators", "Cast")
    assert "fc/Cast-op3" in advice.why
    few = (rows[0], msgspec.structs.replace(rows[1], seconds=0.002))
    assert faults(msgspec.structs.replace(profile, operators=few)) == []


def test_allreduce_is_split_where_it_is_not_yet():
    facts = {"mode": "graph", "compiled_calls": 9, "allreduce_split": False, "parameter_tensors": 160}
    profile = Profile(framework="mindspore", ranks=8, steps=steps(forward=0.1), facts=facts)
    (advice,) = advise(Reading(profile))
    assert advice.fault == "allreduce_not_split"
    assert "all_reduce_fusion_config=[80, 160]" in advice.fix[0]
    assert faults(msgspec.structs.replace(profile, facts={**facts, "allreduce_split": True})) == []
    assert faults(msgspec.structs.replace(profile, facts={**facts, "allreduce_split": None})) == []
    assert faults(msgspec.structs.replace(profile, ranks=1)) == []


def test_a_graph_that_is_built_for_longer_than_a_thousand_steps_is_told():
    facts = {"mode": "graph", "compiled_calls": 9}
    slow = CompileTime(seconds=120.0, graphs=1)
    profile = Profile(framework="mindspore", steps=steps(forward=0.1), compiling=slow, facts=facts)
    assert faults(profile) == ["slow_graph_build"]
    assert faults(msgspec.structs.replace(profile, compiling=CompileTime(seconds=20.0, graphs=1))) == []
    assert faults(msgspec.structs.replace(profile, steps=steps(forward=1.0))) == []


def test_wrappers_that_slow_several_devices_are_found_by_themselves():
    profile = Profile(framework="torch", steps=steps(forward=0.1), facts={"data_parallel": 4})
    assert faults(profile) == ["data_parallel"]
    assert faults(msgspec.structs.replace(profile, facts={"data_parallel": 1})) == []
    large = tuple(msgspec.structs.replace(step, batch=64) for step in steps(forward=0.1))
    profile = Profile(framework="torch", ranks=4, steps=large, facts={"sync_batch_norms": 53})
    assert faults(profile) == ["sync_batch_norm"]
    assert faults(msgspec.structs.replace(profile, facts={"sync_batch_norms": 5})) == []
    assert faults(msgspec.structs.replace(profile, steps=steps(forward=0.1))) == []


def test_a_loader_with_workers_that_are_too_few_is_told_to_have_more():
    loader = LoaderTime(
        "DataLoader", Source("t.py", 3, "DataLoader("), workers=2, batches=20, seconds=1.0, waits=(0.05,) * 20
    )
    profile = Profile(framework="torch", steps=steps(data=0.05, forward=0.05), loaders=(loader,))
    (advice,) = advise(Reading(profile))
    assert advice.fault == "data_loading_starvation"
    assert "more workers than 2" in advice.fix[0]
    assert "2 workers do not keep up" in advice.why
    busy = msgspec.structs.replace(profile, loaders=(msgspec.structs.replace(loader, worker_cpu=3.6),))
    assert "2 workers compute 90 % of the time" in advise(Reading(busy))[0].why
    assert advice.tries == ("workers=4",)


def test_workers_that_are_only_slow_to_start_keep_up():
    waits = (0.25, *(0.0011,) * 19)  # the first batch of an epoch
    loader = LoaderTime("DataLoader", Source("t.py", 3), workers=2, batches=20, seconds=sum(waits), waits=waits)
    profile = Profile(framework="torch", steps=steps(data=0.0011, forward=0.005), loaders=(loader,))
    assert faults(profile) == []


def test_one_long_collection_is_no_habit_and_several_are():
    profile = Profile(framework="torch", steps=steps(forward=0.01), collecting=Collecting(1, 0.05, 1, 0.05))
    assert faults(profile) == []
    again = msgspec.structs.replace(profile, collecting=Collecting(4, 0.08, 4, 0.02))
    assert faults(again) == ["garbage_collection"]


def test_the_rank_that_all_others_wait_for_is_named_with_its_part():
    line = LineTime(Source("t.py", 7, "augment(x)"), 0.5, "data", 50)
    fast = Profile(steps=steps(data=0.01, forward=0.05, backward=0.1), rank=0, ranks=2)
    slow = Profile(steps=steps(data=0.06, forward=0.05, backward=0.05), rank=1, ranks=2, lines=(line,))
    advice = slow_rank([Reading(fast), Reading(slow)])
    assert advice is not None
    assert (advice.fault, advice.rank, advice.source) == ("slow_rank", 1, line.source)
    assert "in data" in advice.why
    assert slow_rank([Reading(fast), Reading(msgspec.structs.replace(fast, rank=1))]) is None
    assert slow_rank([Reading(slow)]) is None
