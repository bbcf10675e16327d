"""Damaged dumps: whatever bytes are changed, reading ends with sentences and never with anything else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensight.dump import anf
from tensight.dump import settings as dump_settings
from tensight.dump.measuring import measure, merged
from tensight.dump.readers import npy, scan
from tensight.errors import TensightError
from tensight.stats import reference
from tests.dump import makers

GOLDEN = Path(__file__).parents[1] / "dump" / "golden"
MORE = os.environ.get("TENSIGHT_FULL") == "1"
FEW = settings(
    max_examples=2000 if MORE else 40,
    deadline=None,
    derandomize=not MORE,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "zero"]), st.floats(0, 1), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, damage) -> bytes:
    for how, where, some in damage:
        at = int(where * max(0, len(data) - 1))
        if how == "flip":
            data = data[:at] + some + data[at + len(some) :]
        elif how == "cut":
            data = data[:at]
        elif how == "insert":
            data = data[:at] + some + data[at:]
        else:
            data = data[:at] + bytes(len(some)) + data[at + len(some) :]
    return data


def sentence(call: Callable[[], Any]) -> str:
    """What is said when a call is refused by an error of ours; '' when it is not."""
    try:
        call()
    except TensightError as error:
        return str(error)
    return ""


def read(folder: Path) -> None:
    """Everything that is found can be read, or is refused by an error of ours."""
    said = sentence(lambda: scan(folder))
    assert "\n" not in said
    if said:
        return
    found, tensors = scan(folder)
    assert all("\n" not in sentence for sentence in found.troubles)
    for one in tensors:
        if one.raw is not None:
            assert one.raw.offset + one.raw.nbytes <= one.raw.file.stat().st_size
            measure(one.raw)


def small_dumps(folder: Path) -> list[Path]:
    """One file of each format."""
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = [
        makers.npy(folder / "npy", "ReLU.Default_act_ReLU-op0.output.0", value),
        makers.ascend(folder / "ascend", "MatMul.Default_fc_MatMul-op1", [value], [value]),
    ]
    shutil.copytree(GOLDEN / "msprobe-26.2-tensor/step1/proc1", folder / "msprobe/step1/rank0")
    made += sorted((folder / "msprobe/step1/rank0").glob("*.json"))
    made += sorted((folder / "msprobe/step1/rank0/dump_tensor_data").glob("*.pt"))[:2]
    place = folder / "csv/rank_0/Net/0/3"
    place.mkdir(parents=True)
    (place / "statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Count\n"
        'MatMul,Default/fc/MatMul-op0,0,0,17,output,0,24,Float32,"(2,3)",4.5,-1,6\n'
    )
    return [*made, place / "statistic.csv"]


@FEW
@given(which=st.integers(0, 100), damage=DAMAGE)
def test_a_damaged_file_of_any_format_never_breaks_the_reading(which, damage):
    with tempfile.TemporaryDirectory() as place:
        files = small_dumps(Path(place))
        file = files[which % len(files)]
        file.write_bytes(damaged(file.read_bytes(), damage))
        root = Path(place) / file.relative_to(place).parts[0]
        read(root)


@FEW
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_header_or_a_sentence(data, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY" + data)
    try:
        found = npy.header(path, len(data) + 6)
    except TensightError:
        return
    assert found.offset + found.nbytes <= len(data) + 6


@FEW
@given(damage=DAMAGE)
def test_a_damaged_graph_is_a_graph_or_a_sentence(damage):
    file = GOLDEN / "mindspore-2.10/rank_0/graphs/ms_output_trace_code_graph_0.pb"
    said = sentence(lambda: anf.decode(damaged(file.read_bytes(), damage), "graph"))
    assert not said or "is not a graph of MindSpore, or is damaged" in said


@FEW
@given(name=st.text(max_size=80))
def test_any_name_of_a_file_is_passed_over_or_read(name, tmp_path):
    from tensight.dump.readers.mindspore_names import describe
    from tensight.dump.readers.mindspore_npy import parse_name

    parts = parse_name(name + ".output.0.DefaultFormat.Float32.npy")
    describe(name, "MatMul" if parts is None else parts.type, "output", 0, (), "float32", "")


@FEW
@given(
    values=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.floats(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=8,
    ),
    key=st.sampled_from(["path", "iteration", "kernels", "support_device", "saved_data", "op_debug_mode", "net_name"]),
)
def test_any_value_in_a_configuration_is_accepted_or_gets_a_sentence(values, key):
    common = {"path": "/x", key: values}
    for made in (values, {"common_dump_settings": values}, {"common_dump_settings": common}):
        assert "\n" not in sentence(partial(dump_settings.parse, made))


@FEW
@given(
    parts=st.lists(
        st.lists(st.floats(width=32) | st.just(float("nan")), min_size=1, max_size=20), min_size=2, max_size=4
    )
)
def test_statistics_of_pieces_together_are_those_of_the_whole(parts):
    arrays = [np.array(part, np.float32) for part in parts]
    whole = reference.statistics(np.concatenate(arrays))
    made = reference.statistics(arrays[0])
    for array in arrays[1:]:
        made = merged(made, reference.statistics(array))
    for name in ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive", "min", "max"):
        assert getattr(made, name) == getattr(whole, name)
    for name in ("abs_mean", "l2"):
        expected = getattr(whole, name)  # None where no value is finite
        assert getattr(made, name) == (expected if expected is None else pytest.approx(expected, rel=1e-6))
    if whole.finite:
        size = max(abs(whole.min), abs(whole.max), 1e-300)
        assert abs(made.mean - whole.mean) <= 1e-6 * size
        assert abs(made.std - whole.std) <= 1e-5 * size
