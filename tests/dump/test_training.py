"""Dumps of real trainings, read back by NumPy alone."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tensight
from tensight.capture.budget import Budget
from tensight.records import Depth
from tensight.store import Reader
from tests.dump import running

LATE = {"Gradients", "Update"}


def scope_of(name: str) -> str:
    """The outermost scope of an operator: 'Default', 'Gradients' or 'Update'."""
    return name.partition(".")[2].partition("_")[0]


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Runs made of dumps go to a folder of this test."""
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


def test_a_torch_dump_holds_the_very_bits_of_each_operator_and_leaves_the_training_as_it_was(tmp_path):
    (tmp_path / "bare").mkdir()
    running.bare(tmp_path / "bare", "torch_training.py")
    options = running.dumped(tmp_path, iteration="0|2", saved_data="full")
    said = running.run(tmp_path, "torch_training.py", options=options)
    assert "exit 0" in said
    assert "held back" not in said
    kept, alone = np.load(tmp_path / "kept.npz"), np.load(tmp_path / "bare" / "kept.npz")
    assert {name: kept[name].tobytes() for name in kept} == {name: alone[name].tobytes() for name in alone}
    assert sorted(path.name for path in (tmp_path / "dump/rank_0/Net/0").iterdir()) == ["0", "2"]
    late = [{name for name in running.files(tmp_path, step) if scope_of(name) in LATE} for step in (0, 2)]
    assert {scope_of(name) for name in late[0]} == LATE
    assert late[0] == late[1]
    for step in (0, 2):
        found = running.files(tmp_path, step)
        hidden = np.load(found["addmm.Default_first_addmm-op0.output.0"])
        relu = np.load(found["relu.Default_act_relu-op0.output.0"])
        logits = np.load(found["addmm.Default_head_addmm-op0.output.0"])
        assert hidden.tobytes() == kept[f"first.{step}"].tobytes()
        assert logits.tobytes() == kept[f"logits.{step}"].tobytes()
        assert relu.tobytes() == np.maximum(hidden, 0).tobytes()
        assert np.load(found["relu.Default_act_relu-op0.input.0"]).tobytes() == hidden.tobytes()
        assert np.load(found["Parameter.head_weight.output.0"]).tobytes() == kept[f"weight.{step}"].tobytes()
        assert np.load(found["Gradient.Gradients_head_weight.output.0"]).tobytes() == kept[f"gradient.{step}"].tobytes()
        back = "threshold_backward.Gradients_Default_act_threshold_backward-op0"
        slope = np.where(hidden > 0, np.load(found[f"{back}.input.0"]), np.float32(0))
        assert np.load(found[f"{back}.output.0"]).tobytes() == slope.tobytes()
    order = (tmp_path / "dump/rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().splitlines()
    assert order.index("Default/first/addmm-op0") < order.index("Default/head/addmm-op0")
    history = (tmp_path / "dump/rank_0/execution_order/ms_global_execution_order_graph_0.csv").read_text()
    assert history.split() == ["0", "2"]
    assert (tmp_path / "dump/rank_0/graphs/ms_output_trace_code_graph_0.pb").stat().st_size > 1000
    assert not list((tmp_path / "dump").glob("graph_mode*"))


def test_a_compiled_torch_model_is_dumped_by_its_modules(tmp_path):
    options = running.dumped(tmp_path, iteration="1", level="module")
    said = running.run(tmp_path, "torch_training.py", "compiled", options=options)
    assert "exit 0" in said
    assert "held back" not in said
    kept = np.load(tmp_path / "kept.npz")
    found = running.files(tmp_path, 1)
    assert np.load(found["Parameter.head_weight.output.0"]).tobytes() == kept["weight.1"].tobytes()
    hidden = np.load(found["Linear.Default_first_Linear-op0.output.0"])
    assert hidden.tobytes() == kept["first.1"].tobytes()
    assert np.load(found["Linear.Default_head_Linear-op0.output.0"]).tobytes() == kept["logits.1"].tobytes()
    assert np.load(found["Gradient.Gradients_head_weight.output.0"]).tobytes() == kept["gradient.1"].tobytes()
    assert np.load(found["ReLU.Default_act_ReLU-op0.output.0"]).tobytes() == np.maximum(hidden, 0).tobytes()


def test_a_mindspore_dump_in_pynative_mode_holds_cells_gradients_and_parameters(tmp_path):
    options = running.dumped(tmp_path, iteration="0-1", saved_data="full", level="module")
    said = running.run(tmp_path, "mindspore_training.py", "pynative", options=options)
    assert "exit 0" in said
    assert "held back" not in said
    kept = np.load(tmp_path / "kept.npz")
    for step in (0, 1):
        found = running.files(tmp_path, step)
        assert np.load(found["ReLU.Default_act_ReLU-op0.output.0"]).tobytes() == kept[f"act.{step}"].tobytes()
        assert np.load(found["Parameter.head_weight.output.0"]).tobytes() == kept[f"weight.{step}"].tobytes()
        assert np.load(found["Gradient.Gradients_head_weight.output.0"]).tobytes() == kept[f"gradient.{step}"].tobytes()
        assert "Dense.Gradients_Default_head_Dense-op0.output.0" in found
    assert not list((tmp_path / "dump").glob("graph_mode*"))


def test_a_mindspore_dump_in_graph_mode_comes_from_mindspore_and_is_completed(tmp_path, cached):
    options = running.dumped(
        tmp_path, iteration="0|1", saved_data="full", statistic_category=["max", "nan count", "md5"]
    )
    said = running.run(tmp_path, "mindspore_training.py", "graph", "nan", options=options)
    assert "exit 0" in said
    assert "held back" not in said
    found, following, kept = running.files(tmp_path, 0), running.files(tmp_path, 1), np.load(tmp_path / "kept.npz")
    loss = next(name for name in found if name.startswith("SparseSoftmax") and name.endswith("op0.output.0"))
    assert np.load(found[loss]).tobytes() == kept["loss.0"].tobytes()
    scope = "Default_network-WithLossCell__backbone-Net_"
    weight = np.load(following[f"MatMul.{scope}head-Dense_MatMul-op0.input.1"])
    assert weight.tobytes() == kept["weight.0"].tobytes()
    hidden = np.load(found[f"BiasAdd.{scope}first-Dense_BiasAdd-op0.output.0"])
    assert np.load(found[f"ReLU.{scope}act-ReLU_ReLU-op0.output.0"]).tobytes() == np.maximum(hidden, 0).tobytes()
    rows = (tmp_path / "dump/rank_0/Net/0/1/statistic.csv").read_text().splitlines()
    assert rows[0].endswith("Max Value,NaN Count,MD5")
    assert len(rows) == len(running.files(tmp_path, 1)) + 1
    assert not list((tmp_path / "dump").glob("graph_mode*"))
    run = tensight.open(tmp_path / "dump")
    hits = run.check("TO on *")
    assert {hit.step for hit in hits.held} == {1}
    assert hits.held[0].op == "MatMul"
    assert hits.held[0].node == "first"
    assert hits.held[0].source.file.endswith("mindspore_training.py")


@pytest.mark.parametrize(
    ("mode", "operator"), [("graph", "first-Dense_MatMul-op0"), ("pynative", "Input.Default_Input-op0")]
)
def test_mindspore_dumps_only_what_overflows_too(tmp_path, cached, mode, operator):
    options = running.dumped(tmp_path, op_debug_mode=3, overflow_number=1)
    assert "exit 0" in running.run(tmp_path, "mindspore_training.py", mode, "nan", options=options)
    assert [sorted(running.files(tmp_path, step)) for step in (0, 2)] == [[], []]
    found = running.files(tmp_path, 1)
    assert found
    assert all(operator in name for name in found)
    (output,) = [path for name, path in found.items() if name.endswith("output.0")]
    assert np.isnan(np.load(output)).any()


def test_only_operators_that_overflow_are_dumped_with_what_they_were_given_and_their_lines(tmp_path):
    options = running.dumped(tmp_path, op_debug_mode=3, overflow_number=1)
    said = running.run(tmp_path, "torch_overflow.py", options=options)
    assert "held back" not in said
    place = tmp_path / "dump/rank_0/Net/0"
    assert [path.name for path in place.iterdir()] == ["1"]
    found = running.files(tmp_path, 1)
    assert sorted(found) == [
        "div.Default_scale_div-op0.input.0",
        "div.Default_scale_div-op0.input.1",
        "div.Default_scale_div-op0.output.0",
    ]
    assert np.load(found["div.Default_scale_div-op0.input.1"]) == 0
    assert not np.isfinite(np.load(found["div.Default_scale_div-op0.output.0"])).any()
    (told,) = place.glob("1/Opdebug.Node_OpDebug.*.json")
    facts = json.loads(told.read_text())
    assert facts["op_name"] == "Default/scale/div-op0"
    assert facts["inputs_finite"] is True
    assert facts["stack"][0]["code"] == "return x / by"


def test_the_inputs_of_an_operator_that_fails_are_dumped(tmp_path):
    options = running.dumped(tmp_path, op_debug_mode=4)
    said = running.run(tmp_path, "torch_overflow.py", "fail", options=options)
    assert "exit 1" in said
    found = running.files(tmp_path, 2)
    assert sorted(name.rpartition("_")[2] for name in found)
    (told,) = (tmp_path / "dump/rank_0/Net/0/2").glob("Opdebug*.json")
    assert "RuntimeError" in json.loads(told.read_text())["error"]
    assert np.load(found["addmm.Default_first_addmm-op0.input.1"]).shape == (3, 2)


def test_the_environment_asks_for_a_dump_and_kernels_choose_by_name_type_and_pattern(tmp_path):
    words = ["Default/first", "relu", "name-regex(Gradients/Default/head/.+)", "nothing like it"]
    file = tmp_path / "dump.json"
    file.write_text(
        json.dumps(running.config(tmp_path, "async", dump_mode=1, kernels=words, input_output=2, iteration="3"))
    )
    said = running.run(tmp_path, "torch_training.py", TENSIGHT_DUMP_CONFIG=str(file))
    found = running.files(tmp_path, 3)
    assert "kernels of the dump configuration that matched nothing: nothing like it" in said
    assert found
    assert not [name for name in found if ".input." in name]
    for name in found:
        assert "Default_first_" in name or "relu" in name or "Gradients_Default_head_" in name
    assert "relu.Default_act_relu-op0.output.0" in found
    assert any("Gradients_Default_head_" in name for name in found)


def test_a_wrong_configuration_is_one_sentence_and_the_script_does_not_start(tmp_path):
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(running.config(tmp_path, dump_mode=7)))
    said = running.run(tmp_path, "torch_training.py", options=("--dump", str(file)))
    assert f"tensight: {file}: common_dump_settings.dump_mode is 7: allowed is 0, 1, 2\n" in said
    assert "exit 2" in said
    assert not (tmp_path / "kept.npz").exists()


def rows(folder: Path, step: int) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows of a step's statistics by type, name, place and how often that was seen before."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    with open(folder / f"dump/rank_0/Net/0/{step}/statistic.csv", newline="") as file:
        for row in csv.DictReader(file):
            place = (row["Op Type"], row["Op Name"], row["IO"], row["Slot"])
            found[(*place, str(seen[place]))] = row
            seen[place] += 1
    return found


def test_statistics_of_what_was_written_over_are_those_of_the_moment(tmp_path):
    """Most tensors are read once and known again; what changes in between must not be."""
    asked = {"iteration": "1-2", "statistic_category": ["max", "min", "avg", "zero count"]}
    for way in ("full", "statistic"):
        place = tmp_path / way
        place.mkdir()
        options = running.dumped(place, saved_data=way, **asked)
        said = running.run(place, "torch_in_place.py", options=options)
        assert "exit 0" in said
        assert "held back" not in said
    for step in (1, 2):
        whole, alone = rows(tmp_path / "full", step), rows(tmp_path / "statistic", step)
        assert {place[2] for place in whole} == {"input", "output"}
        judged = 0
        for (type, name, io, slot, _), row in whole.items():
            values = np.load(
                next(
                    (tmp_path / f"full/dump/rank_0/Net/0/{step}").glob(
                        f"{type}.{name.replace('/', '_').replace('.', '_')}.0.0.{row['Timestamp']}.{io}.{slot}.*"
                    )
                )
            )
            assert float(row["Max Value"]) == values.max(), (name, io, slot)
            assert float(row["Min Value"]) == values.min(), (name, io, slot)
            assert int(row["Zero Count"]) == (values == 0).sum(), (name, io, slot)
            judged += 1
        assert judged > 100
        for place, row in whole.items():  # beside them, the loss has statistics and no values
            assert {**row, "Timestamp": ""} == {**alone[place], "Timestamp": ""}


def test_a_dump_of_module_outputs_leaves_the_rest_to_the_budget(tmp_path, monkeypatch):
    """Every output of every step is written, and nothing is read beside for it."""
    import torch

    monkeypatch.setattr(Budget, "next_depth", lambda self, step: Depth.ALL if step < 2 else Depth.LIGHT)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = []
    model[0].register_forward_hook(lambda module, args, result: made.append(result.detach().clone()))
    asked = {"level": "module", "input_output": 2, "dump_mode": 1, "kernels": [r"name-regex(^Default/.+-op\d+$)"]}
    with tensight.dump(
        model, optimizer, path=tmp_path / "dump", run_dir=tmp_path / "run", quiet=True, iteration="all",
        asynchronous=True, **asked,
    ):  # fmt: skip
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    for step in range(6):
        found = running.files(tmp_path, step)
        assert len([name for name in found if name.startswith(("Linear.", "ReLU."))]) == 3, (step, sorted(found))
        assert not [name for name in found if name.startswith(("Parameter.", "Gradient."))]
        values = np.load(next(path for name, path in found.items() if name.startswith("Linear.Default_0_")))
        assert np.array_equal(values, made[step].numpy())
    reader = Reader(tmp_path / "run")
    kinds = [{reader.tensors[seen.tensor].kind for seen in record.observations} for record in reader.steps]
    assert {"weight", "gradient", "output", "output_gradient"} <= kinds[1]
    assert not {"weight", "gradient", "output", "output_gradient"} & set.union(*kinds[2:])
