"""Checkpoints go from one framework to the other by rules; what is renamed or left out is said."""

from __future__ import annotations

import json
from pathlib import Path

import mindspore
import numpy as np
import pytest
import torch
from torch import nn

from tensight.cli import main
from tensight.compare import checkpoints
from tensight.compare.checkpoints.convert import Conversion, convert
from tensight.errors import CheckpointError

DATA = Path(__file__).parent / "data"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.line = nn.Conv1d(4, 6, 3)
        self.bn = nn.BatchNorm1d(6)
        self.prelu = nn.PReLU()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True)
        self.attention = nn.MultiheadAttention(10, 2)
        self.norm = nn.LayerNorm(10)
        self.layer = nn.TransformerEncoderLayer(10, 2, 12)
        self.head = nn.Linear(10, 3)


class Port(mindspore.nn.Cell):
    """The same network in MindSpore."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = mindspore.nn.Embedding(7, 4)
        self.line = mindspore.nn.Conv1d(4, 6, 3, has_bias=True)
        self.bn = mindspore.nn.BatchNorm1d(6)
        self.prelu = mindspore.nn.PReLU()
        self.lstm = mindspore.nn.LSTM(6, 5, num_layers=2, bidirectional=True)
        self.attention = mindspore.nn.MultiheadAttention(10, 2)
        self.norm = mindspore.nn.LayerNorm((10,))
        self.layer = mindspore.nn.TransformerEncoderLayer(10, 2, 12)
        self.head = mindspore.nn.Dense(10, 3)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    model = Net()
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.uniform_()
    torch.save(model.state_dict(), tmp_path / "net.pt")
    return tmp_path / "net.pt"


def converted(source: Path, target: Path, **options: object) -> Conversion:
    return convert(checkpoints.read(source), target, **options)  # type: ignore[arg-type]


def test_a_torch_network_becomes_what_mindspore_loads_into_its_port(saved: Path) -> None:
    done = converted(saved, saved.with_suffix(".ckpt"))
    assert [left.name for left in done.left_out] == ["bn.num_batches_tracked"]
    port = Port()
    missing, unknown = mindspore.load_param_into_net(port, mindspore.load_checkpoint(str(saved.with_suffix(".ckpt"))))
    assert (missing, unknown) == ([], [])
    state = torch.load(saved, weights_only=True)
    values = {name: parameter.asnumpy() for name, parameter in port.parameters_and_names()}
    assert np.array_equal(values["line.weight"][:, :, 0], state["line.weight"].numpy())
    assert np.array_equal(values["bn.moving_variance"], state["bn.running_var"].numpy())
    assert np.array_equal(values["layer.dense1.weight"], state["layer.linear1.weight"].numpy())
    assert np.array_equal(values["lstm.weight_hh_l1_reverse"], state["lstm.weight_hh_l1_reverse"].numpy())


def test_there_and_back_gives_the_same_network(saved: Path, tmp_path: Path) -> None:
    converted(saved, tmp_path / "net.ckpt")
    done = converted(tmp_path / "net.ckpt", tmp_path / "back.pt")
    assert done.left_out == []
    model = Net()
    model.load_state_dict(torch.load(tmp_path / "back.pt", weights_only=True))
    for name, value in torch.load(saved, weights_only=True).items():
        if name != "bn.num_batches_tracked":
            assert torch.equal(model.state_dict()[name], value), name


def test_diff_maps_the_names_of_both_frameworks(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    converted(saved, tmp_path / "net.ckpt")
    main(["ckpt", "diff", "--json", str(saved), str(tmp_path / "net.ckpt")])
    found = json.loads(capsys.readouterr().out)
    assert found["changed"] == found["only_b"] == found["shape_differs"] == []
    assert found["only_a"] == ["bn.num_batches_tracked"]


def test_a_safetensors_target_keeps_the_names_unless_told(saved: Path, tmp_path: Path) -> None:
    converted(saved, tmp_path / "a.safetensors")
    converted(saved, tmp_path / "b.safetensors", names="mindspore")
    assert "bn.running_mean" in checkpoints.read(tmp_path / "a.safetensors").entries
    found = checkpoints.read(tmp_path / "b.safetensors")
    assert "bn.moving_mean" in found.entries
    assert found.framework == "mindspore"


def test_optimizer_states_go_by_the_names_of_their_parameters(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.randn(5, 3)).sum().backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 4}, tmp_path / "a.pt")
    done = converted(tmp_path / "a.pt", tmp_path / "a.ckpt")
    found = checkpoints.read(tmp_path / "a.ckpt")
    assert {"0.weight", "1.gamma", "moment1.1.gamma", "moment2.2.bias", "global_step", "beta1_power"} <= set(
        found.entries
    )
    assert found.entries["global_step"].numpy().tolist() == [3]
    assert found.values["epoch"] == 4
    assert [left.name for left in done.left_out] == ["model.1.num_batches_tracked"]
    assert set(done.states) == set(found.entries) - {row.to for row in done.tensors}  # written, and said
    converted(tmp_path / "a.ckpt", tmp_path / "b.pt", whole=True)
    back = torch.load(tmp_path / "b.pt", weights_only=True)
    assert back["epoch"] == 4
    state = optimizer.state_dict()["state"]
    for number, own in back["optimizer"]["state"].items():
        assert torch.equal(own["exp_avg_sq"], state[number]["exp_avg_sq"])
        assert torch.equal(own["step"], state[number]["step"])


def test_values_that_a_state_dictionary_cannot_hold_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ckpt", "convert", str(DATA / "mindspore-2.10.ckpt"), str(tmp_path / "a.pt")])
    assert "left out: epoch" in capsys.readouterr().out
    assert "bn.running_mean" in torch.load(tmp_path / "a.pt", weights_only=True)


def test_a_mapping_file_names_what_no_rule_knows(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("head = classifier  # a module\nline.weight = conv.kernel\nprelu.weight = ''\n")
    main(["ckpt", "convert", str(saved), str(tmp_path / "a.ckpt"), "--map", str(tmp_path / "names.txt")])
    found = checkpoints.read(tmp_path / "a.ckpt").entries
    assert {"classifier.weight", "classifier.bias", "conv.kernel"} <= set(found)
    assert not any(name.startswith(("head", "prelu")) for name in found)


def test_a_checkpoint_of_the_target_settles_doubts_and_checks_shapes(tmp_path: Path) -> None:
    torch.save({"table.weight": torch.ones(5, 2)}, tmp_path / "a.pt")
    target = mindspore.nn.SequentialCell()
    target.table = mindspore.nn.Embedding(5, 2)
    mindspore.save_checkpoint(
        [{"name": "table.embedding_table", "data": mindspore.Tensor(np.ones((5, 2), np.float32))}],
        str(tmp_path / "like.ckpt"),
    )
    done = converted(tmp_path / "a.pt", tmp_path / "b.ckpt", like=checkpoints.read(tmp_path / "like.ckpt"))
    assert [row.to for row in done.tensors] == ["table.embedding_table"]
    torch.save({"table.weight": torch.ones(5, 3)}, tmp_path / "c.pt")
    mapping = {"table.weight": "table.embedding_table"}
    with pytest.raises(CheckpointError, match="does not fit"):
        converted(
            tmp_path / "c.pt", tmp_path / "d.ckpt", like=checkpoints.read(tmp_path / "like.ckpt"), mapping=mapping
        )
    assert not (tmp_path / "d.ckpt").exists()


def test_two_tensors_never_become_one(tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(2, 2), "b.weight": torch.ones(2, 2)}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="both be called"):
        converted(tmp_path / "a.pt", tmp_path / "a.ckpt", mapping={"a": "c", "b": "c"})
