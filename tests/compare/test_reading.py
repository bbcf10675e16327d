"""Checkpoints are read without a framework, as the frameworks themselves read them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensight.cli import main
from tensight.compare import checkpoints
from tensight.compare.checkpoints import mindspore_file, safetensors_file
from tensight.compare.checkpoints.entry import of_array
from tensight.errors import CheckpointError

DATA = Path(__file__).parent / "data"


def test_a_mindspore_checkpoint_equals_the_safetensors_file_of_the_same_model() -> None:
    a = checkpoints.read(DATA / "mindspore-2.10.ckpt")
    b = checkpoints.read(DATA / "mindspore-2.10.safetensors")
    assert a.framework == b.framework == "mindspore"
    assert set(a.entries) == set(b.entries)
    assert len(a.entries) == 17
    for name, entry in a.entries.items():
        assert entry.shape == b.entries[name].shape
        assert np.array_equal(entry.numpy(), b.entries[name].numpy()), name
    assert a.values["epoch"] == 3
    assert a.values["tag"] == "hi"


def test_every_kind_of_torch_tensor_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    base = torch.randn(6, 4)
    saved = {
        "plain": base,
        "transposed": base.t(),
        "part": base[2:5, 1:3],
        "half": base.half(),
        "brain": base.bfloat16(),
        "eight": base.to(torch.float8_e5m2),
        "whole": torch.arange(5),
        "flag": torch.tensor([True, False]),
        "scalar": torch.tensor(3.5),
        "none": torch.empty(0, 3),
        "wave": torch.randn(3, dtype=torch.complex64),
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    }
    torch.save(saved, tmp_path / "a.pt")
    found = checkpoints.read(tmp_path / "a.pt")
    assert list(found.entries) == list(saved)
    for name, tensor in saved.items():
        entry = found.entries[name]
        assert entry.shape == tuple(tensor.shape)
        assert f"torch.{entry.dtype}" == str(tensor.dtype)
        wide = tensor.detach() if tensor.dtype.itemsize > 2 or not tensor.is_floating_point() else tensor.float()
        assert np.array_equal(entry.numpy(), wide.numpy()), name
    assert found.entries["parameter"].trainable is False
    assert found.entries["plain"].trainable is None


def test_nested_checkpoints_keep_the_path_of_each_tensor_and_the_values_beside(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7}, tmp_path / "a.pth")
    found = checkpoints.read(tmp_path / "a.pth")
    assert {"model.weight", "model.bias", "optimizer.state.0.exp_avg"} <= set(found.entries)
    assert found.values["epoch"] == 7
    assert found.values["optimizer.param_groups.0.betas.1"] == 0.999


def test_a_large_mindspore_tensor_in_several_messages_is_one_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mindspore_file, "_SLICE", 64)
    array = np.arange(100, dtype=np.float32).reshape(10, 10)
    mindspore_file.write(tmp_path / "a.ckpt", [of_array("w", array)], {}, "mindspore")
    assert (tmp_path / "a.ckpt").read_bytes().count(b"Float32") == 7
    assert np.array_equal(checkpoints.read(tmp_path / "a.ckpt").entries["w"].numpy(), array)


def saved(path: Path, framework: str, values: dict[str, Any]) -> str:
    """A checkpoint as the framework itself writes it."""
    if framework == "torch":
        torch.save({name: torch.tensor(value) for name, value in values.items()}, path)
    else:
        import mindspore

        rows = [{"name": name, "data": mindspore.Tensor(np.array(value, "f"))} for name, value in values.items()]
        mindspore.save_checkpoint(rows, str(path))
    return str(path)


both = pytest.mark.parametrize(("framework", "suffix"), [("torch", ".pt"), ("mindspore", ".ckpt")])


@both
def test_bad_values_and_values_are_shown_and_changes_told_of_either_frameworks_files(
    framework: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = {"w": [0.0, 1.5, 2.5, 4.0], "b": [1.0, 1.0]}
    a = saved(tmp_path / f"a{suffix}", framework, start)
    b = saved(tmp_path / f"b{suffix}", framework, {**start, "w": [0.0, math.nan, math.inf, -math.inf]})
    c = saved(tmp_path / f"c{suffix}", framework, {**start, "w": [0.0, 1.5, 2.5, 6.0]})
    main(["ckpt", "show", "--json", b])
    shown = {row["name"]: row for row in json.loads(capsys.readouterr().out)["parameters"]}
    assert (shown["w"]["nan"], shown["w"]["inf"], shown["w"]["zero"]) == (0.25, 0.5, 0.25)
    assert (shown["b"]["nan"], shown["b"]["inf"]) == (0.0, 0.0)
    main(["ckpt", "show", "--values", a])
    assert "2.5" in capsys.readouterr().out
    main(["ckpt", "diff", "--json", a, c])
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["max_abs"], row["mean_abs"]) for row in found["changed"]] == [("w", 2.0, 0.5)]
    assert found["unchanged"] == ["b"]


def test_show_gives_shares_of_bad_and_zero_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(
        {"w": torch.tensor([[0.0, float("nan")], [float("inf"), 2.0]]), "b": torch.zeros(3).bfloat16()},
        tmp_path / "a.pt",
    )
    main(["ckpt", "show", "--json", str(tmp_path / "a.pt")])
    found = json.loads(capsys.readouterr().out)
    assert found["total"] == 7
    w, b = found["parameters"]
    assert (w["name"], w["shape"], w["dtype"], w["trainable"]) == ("w", [2, 2], "float32", None)
    assert (w["nan"], w["inf"], w["zero"]) == (0.25, 0.25, 0.25)
    assert (b["dtype"], b["zero"]) == ("bfloat16", 1.0)


def test_show_prints_a_table_and_the_values_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"w": torch.tensor([1.5, 2.5])}, tmp_path / "a.pt")
    main(["ckpt", "show", "--values", str(tmp_path / "a.pt")])
    shown = capsys.readouterr().out
    assert "1.5" in shown
    assert "1 tensors, 2 values" in shown


def test_diff_says_what_changed_and_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(
        {"same": torch.ones(2), "moved": torch.zeros(4), "old": torch.ones(1), "shape": torch.ones(2)},
        tmp_path / "a.pt",
    )
    moved = torch.tensor([0.0, 0.0, 0.0, 2.0])
    torch.save({"same": torch.ones(2), "moved": moved, "new": torch.ones(1), "shape": torch.ones(3)}, tmp_path / "b.pt")
    main(["ckpt", "diff", "--json", str(tmp_path / "a.pt"), str(tmp_path / "b.pt")])
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["max_abs"], row["mean_abs"]) for row in found["changed"]] == [("moved", 2.0, 0.5)]
    assert found["unchanged"] == ["same"]
    assert (found["only_a"], found["only_b"]) == (["old"], ["new"])
    assert [row["name"] for row in found["shape_differs"]] == ["shape"]


def test_safetensors_files_are_written_as_the_library_reads_them(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    torch.save({"w": torch.randn(3, 2).bfloat16()}, tmp_path / "a.pt")
    source = checkpoints.read(tmp_path / "a.pt")
    safetensors_file.write(tmp_path / "a.safetensors", source.entries.values(), {}, "torch")
    assert torch.equal(
        load_file(tmp_path / "a.safetensors")["w"], torch.load(tmp_path / "a.pt", weights_only=True)["w"]
    )


def test_numpy_values_in_a_torch_file_are_read_and_what_is_not_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = {
        "model": {"w": torch.ones(2)},
        "best": np.float64(0.75),
        "steps": np.int64(12),
        "mean": np.arange(6, dtype=np.float32).reshape(2, 3),
        "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "nothing": None,
        "kind": torch.float16,
    }
    torch.save(saved, tmp_path / "a.pt")
    found = checkpoints.read(tmp_path / "a.pt")
    assert (found.values["best"], found.values["steps"], found.values["nothing"]) == (0.75, 12, None)
    assert np.array_equal(found.entries["mean"].numpy(), saved["mean"])
    assert np.array_equal(found.entries["turned"].numpy(), saved["turned"])
    assert found.unread == {"kind": "torch.float16"}
    main(["ckpt", "show", str(tmp_path / "a.pt")])
    assert "kind is a torch.float16, which is not shown" in capsys.readouterr().out
    main(["ckpt", "convert", str(tmp_path / "a.pt"), str(tmp_path / "a.ckpt")])
    said = capsys.readouterr().out
    assert "left out: kind" in said
    assert "left out: nothing" in said
    assert checkpoints.read(tmp_path / "a.ckpt").entries["best"].numpy() == 0.75


def test_shards_of_a_checkpoint_are_read_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {"one.safetensors": ("a.weight", "a.bias"), "two.safetensors": ("b.weight",)}
    for file, names in parts.items():
        safetensors_file.write(
            tmp_path / file, [of_array(name, np.full(3, len(name), np.float32)) for name in names], {}, "torch"
        )
    places = {name: file for file, names in parts.items() for name in names}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert set(checkpoints.read(index).entries) == set(places)
    torch.save({name: torch.full((3,), float(len(name))) for name in places}, tmp_path / "whole.pt")
    main(["compare", "--json", str(tmp_path / "whole.pt"), str(index)])
    assert json.loads(capsys.readouterr().out)["verdict"] == "identical"
    for wrong in ({**places, "c": "one.safetensors"}, {"a.weight": "one.safetensors"}, {"a": "../one.safetensors"}):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(CheckpointError):
            checkpoints.read(index)
