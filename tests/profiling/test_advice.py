"""Advice on slow programs and their fast twins, judged from what was recorded of them.

`benchmarks/slow_programs.py --record` takes the records anew, and judges by the clock.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tensight.profiling import RULES, Advice, Reading, advise
from tensight.profiling.document import text
from tensight.profiling.ranks import slow_rank
from tensight.records import Source
from tensight.records.timing import LineTime, LoaderTime, OperatorTime, Profile, StepTime

HERE = Path(__file__).parent
FAULTS = {
    "starved_loader": "data_loading_starvation",
    "slow_transform": "slow_transform",
    "jitter": "data_jitter",
    "loader_anew": "loader_made_anew",
    "item_each_step": "synchronising_calls",
    "cast_ping_pong": "cast_ping_pong",
    "float64": "accidental_float64",
    "recompiles": "recompilation_storm",
    "graph_breaks": "graph_breaks",
    "tiny_batches": "tiny_batches",
    "collector": "garbage_collection",
    "growing_graph": "graph_retained_by_accumulation",
    "python_in_step": "python_in_step",
    "anomaly": "debug_switch_left_on",
    "optimizer_loop": "optimizer_loop",
    "poor_overlap": "poor_overlap",
}


def recorded(name: str, kind: str) -> list[Advice]:
    found = msgspec.json.decode((HERE / "recorded" / f"{name}-{kind}.json").read_bytes(), type=Profile)
    return advise(Reading(found))


def marked(name: str) -> int:
    lines = (HERE / "programs" / f"{name}.py").read_text().splitlines()
    (line,) = [number for number, code in enumerate(lines, 1) if code.endswith("# slow")]
    return line


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_advice_names_cause_and_line(name: str):
    first = recorded(name, "slow")[0]
    assert first.fault == FAULTS[name]
    assert first.source is not None
    assert (Path(first.source.file).name, first.source.line) == (f"{name}.py", marked(name))
    assert first.gain > 0
    assert first.fix
    assert first.evidence


@pytest.mark.parametrize("name", FAULTS)
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


def test_a_loader_with_workers_that_are_too_few_is_told_to_have_more():
    loader = LoaderTime(
        "DataLoader", Source("t.py", 3, "DataLoader("), workers=2, batches=20, seconds=1.0, waits=(0.05,) * 20
    )
    profile = Profile(framework="torch", steps=steps(data=0.05, forward=0.05), loaders=(loader,))
    (advice,) = advise(Reading(profile))
    assert advice.fault == "data_loading_starvation"
    assert "more workers than 2" in advice.fix[0]
    assert advice.tries == ("workers=4",)


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
