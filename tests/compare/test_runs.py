"""Two runs are compared: twins agree, and an injected fault is found in the module it was injected into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tensight
from tensight.cli import main
from tensight.compare.result import LossVerdict
from tensight.compare.telling import told
from tensight.errors import UsageError
from tensight.records import Finding, Module, Network, Observation, RunEnd, StepRecord, TensorInfo, Where
from tensight.stats import statistics
from tensight.store import Writer
from tensight.testing.store_suite import run_info
from tests.compare.training import Former, Seeing, other_order, record, setting, weight


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[type[Any], Path]:
    folder = tmp_path_factory.mktemp("base")
    return {kind: record(folder / kind.__name__, kind) for kind in (Former, Seeing)}


@pytest.mark.parametrize("kind", [Former, Seeing])
def test_a_run_compared_with_its_repetition_is_identical(
    base: dict[type[Any], Path], kind: type[Any], tmp_path: Path
) -> None:
    found = tensight.compare(base[kind], record(tmp_path / "b", kind))
    assert found.verdict == "identical"
    assert found.first_divergence is None
    assert found.preflight == []
    assert found.loss.verdict == "none"


@pytest.mark.parametrize("kind", [Former, Seeing])
def test_another_order_of_sums_is_rounding(base: dict[type[Any], Path], kind: type[Any], tmp_path: Path) -> None:
    found = tensight.compare(base[kind], record(tmp_path / "b", kind, other_order))
    assert found.verdict in ("rounding", "identical")  # which of them depends on the processor's kernels
    assert found.first_divergence is None
    assert {row["verdict"] for row in found.rows} <= {"identical", "rounding", "suspicious", "follows"}
    assert all(row["error"] < 10 * row["floor"] for row in found.rows if (row["step"], row["phase"]) == (0, "forward"))


def cut(model: Any) -> None:
    model.c2.register_forward_hook(lambda module, given, result: result.detach())


def without_bias(model: Any) -> None:
    model.head.bias = None


def adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=1e-3, weight_decay=1e-2)


def flipped(values: Any) -> Any:
    return values.flip(0)


FAULTS: list[tuple[type[Any], str, str, dict[str, Any], str, str]] = [
    # network, what is wrong, module, how, phase, a word of the likely cause
    (Former, "eps", "blocks.1.ln1", {"change": setting("blocks.1.ln1", eps=1e-7)}, "forward", "eps is 1e-05 in A"),
    (Former, "gelu", "blocks.2.act", {"change": setting("blocks.2.act", approximate="tanh")}, "forward", "GELU"),
    (Former, "dropout", "blocks.0.drop", {"change": setting("blocks.0.drop", p=0.2)}, "forward", "dropout"),
    (Former, "rows", "blocks.1.fc2", {"change": weight("blocks.1.fc2.weight", flipped)}, "forward", "order"),
    (Former, "bias", "head", {"change": without_bias}, "forward", "bias is missing in B"),
    (Former, "sum", "", {"loss": lambda a, b: functional.cross_entropy(a, b, reduction="sum")}, "forward", "24 times"),
    (Former, "start", "ln", {"change": weight("ln.weight", lambda w: w * 1.5)}, "start", "1.5 times"),
    (Former, "decay", "emb", {"optimizer": adam}, "update", "AdamW"),
    (Seeing, "slope", "relu", {"change": setting("relu", negative_slope=0.2)}, "forward", "negative_slope"),
    (Seeing, "mode", "bn", {"change": lambda m: m.bn.eval()}, "forward", "running"),
    (Seeing, "momentum", "bn", {"change": setting("bn", momentum=0.9)}, "update", "momentum"),
    (Seeing, "cut", "c1", {"change": cut}, "update", "a gradient in A and none in B"),
    (Seeing, "channels", "c1", {"data": lambda x: x.flip(1)}, "forward", "order of channels"),
    (Seeing, "scale", "", {"data": lambda x: x / 255}, "input", "0.003922 times"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "module", "how", "phase", "cause"), FAULTS, ids=[row[1] for row in FAULTS])
def test_the_first_divergence_is_in_the_module_with_the_fault(
    base: dict[type[Any], Path],
    tmp_path: Path,
    kind: type[Any],
    name: str,
    module: str,
    how: dict[str, Any],
    phase: str,
    cause: str,
) -> None:
    found = tensight.compare(base[kind], record(tmp_path / "b", kind, **how))
    first = found.first_divergence
    assert found.verdict == "different"
    assert first is not None
    assert (first.module, first.module_b, first.phase, first.step) == (module, module, phase, 0)
    assert first.error > first.floor
    assert cause in first.likely_cause
    assert found.faults[0] == first


def test_a_wrong_forward_pass_shows_in_the_first_loss(base: dict[type[Any], Path], tmp_path: Path) -> None:
    found = tensight.compare(base[Seeing], record(tmp_path / "b", Seeing, setting("relu", negative_slope=0.5)))
    assert (found.loss.first_step_differs, found.loss.verdict) == (0, "forward")


def test_a_wrong_update_shows_in_the_second_loss(base: dict[type[Any], Path], tmp_path: Path) -> None:
    other = record(tmp_path / "b", Seeing, optimizer=lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=1e-2))
    found = tensight.compare(base[Seeing], other)
    assert (found.loss.first_step_differs, found.loss.verdict) == (1, "backward_or_update")
    assert [(one.what, one.a, one.b) for one in found.preflight] == [("optimizer AdamW: lr", 1e-3, 3e-3)]


def test_another_order_of_the_data_is_named_before_any_step(tmp_path: Path) -> None:
    data = TensorDataset(torch.arange(32.0).reshape(16, 2), torch.arange(16.0).reshape(16, 1))

    def trained(name: str, shuffle: bool) -> Path:
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        with tensight.watch(model, optimizer=optimizer, run_dir=tmp_path / name) as session:
            for x, y in session.steps(DataLoader(data, batch_size=4, shuffle=shuffle)):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
        return tmp_path / name

    found = tensight.compare(trained("a", True), trained("b", False))
    assert ("loader DataLoader: shuffle", True, False) in [(one.what, one.a, one.b) for one in found.preflight]
    assert found.first_divergence is not None
    assert found.first_divergence.phase == "input"
    assert "another order of it" in found.first_divergence.likely_cause


def test_every_independent_fault_is_named_where_inputs_were_recorded(tmp_path: Path) -> None:
    def both(model: Any) -> None:
        setting("blocks.0.ln1", eps=1e-4)(model)
        setting("blocks.2.act", approximate="tanh")(model)

    a = record(tmp_path / "a", Former, level="module", steps=1)
    b = record(tmp_path / "b", Former, both, level="module", steps=1)
    # and not the blocks around them, which were given the same and give something else because of what is in them
    assert [fault.module for fault in tensight.compare(a, b).faults] == ["blocks.0.ln1", "blocks.2.act"]


def test_the_operator_is_named_where_operators_were_recorded(tmp_path: Path) -> None:
    a = record(tmp_path / "a", Seeing, level="op", steps=1)
    b = record(tmp_path / "b", Seeing, setting("relu", negative_slope=0.3), level="op", steps=1)
    first = tensight.compare(a, b).first_divergence
    assert first is not None
    assert first.op == "aten.leaky_relu"
    assert first.file is not None
    assert first.file.endswith("training.py")


def test_modules_of_other_names_are_paired_by_order_or_by_a_mapping(
    base: dict[type[Any], Path], tmp_path: Path
) -> None:
    class Renamed(Seeing):
        def __init__(self) -> None:
            super().__init__()
            for old, new in (("c1", "stem"), ("bn", "norm"), ("relu", "act"), ("c2", "down"), ("head", "classifier")):
                setattr(self, new, self.__dict__["_modules"].pop(old))

        def forward(self, x: Any) -> Any:
            return self.classifier(self.down(self.act(self.norm(self.stem(x)))).mean((2, 3)))

    b = record(tmp_path / "b", Renamed)
    assert tensight.compare(base[Seeing], b).verdict == "identical"
    c = record(tmp_path / "c", Renamed, setting("act", negative_slope=0.3))
    first = tensight.compare(base[Seeing], c, {"relu": "act"}).first_divergence
    assert first is not None
    assert (first.module, first.module_b, first.aligned_by) == ("relu", "act", "mapping")


def test_runs_of_different_networks_are_not_comparable(base: dict[type[Any], Path], tmp_path: Path) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.only = nn.Linear(3, 5)

        def forward(self, x: Any) -> Any:
            return self.only(x)

        @staticmethod
        def batch() -> tuple[Any, Any]:
            return torch.randn(4, 3), torch.randint(0, 5, (4,))

    found = tensight.compare(base[Former], record(tmp_path / "b", Other))
    assert found.verdict in ("not_comparable", "different")
    assert any(one.what == "modules without a counterpart" for one in found.preflight) or found.reason


def test_the_command_prints_the_contract(
    base: dict[type[Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = record(tmp_path / "b", Former, setting("blocks.1.ln1", eps=1e-2))
    main(["compare", "--json", str(base[Former]), str(other)])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "different"
    assert {"what": "blocks.1.ln1: eps", "a": 1e-05, "b": 1e-2} in found["preflight"]
    keys = {"module", "module_b", "op", "step", "phase", "error", "floor", "likely_cause", "file", "line"}
    assert keys <= set(found["first_divergence"])
    assert set(found["loss"]) >= {"first_step_differs", "verdict"}
    assert found["faults"]
    assert found["rows"]
    main(["compare", "--rows", "3", str(base[Former]), str(other)])
    shown = capsys.readouterr().out
    assert "blocks.1.ln1" in shown
    assert "verdict   different" in shown


def test_two_checkpoints_are_compared_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    state = Seeing().state_dict()
    torch.save(state, tmp_path / "a.pt")
    torch.save({**state, "head.weight": state["head.weight"].flip(0)}, tmp_path / "b.pt")
    assert tensight.compare(tmp_path / "a.pt", tmp_path / "a.pt").verdict == "identical"
    first = tensight.compare(tmp_path / "a.pt", tmp_path / "b.pt").first_divergence
    assert first is not None
    assert (first.module, first.likely_cause) == ("head", "the same values in another order")
    with pytest.raises(UsageError, match="not one of each"):
        tensight.compare(tmp_path / "a.pt", tmp_path)


def kept(folder: Path, values: np.ndarray[Any, Any], findings: Sequence[Finding] = ()) -> Path:
    """A recording of one step of one module whose output was kept."""
    writer = Writer(folder, run_info(0, 1))
    writer.network(Network("model", "Net", (Module("", "Net"), Module("fc", "Linear"))))
    writer.tensor(
        TensorInfo(0, "output", "fc", "output.0", "model", shape=values.shape, dtype="float32", type="Linear")
    )
    writer.step(StepRecord(0, 1.0, 0.1, loss=1.0, observations=(Observation(0, 0, statistics(values)),)))
    writer.tensors(0, {0: values})
    writer.findings(list(findings))
    writer.end(RunEnd("finished", 2.0, 0, 1))
    writer.close()
    return folder


def test_a_side_that_went_wrong_by_itself_is_said_to_have_a_finding(tmp_path: Path) -> None:
    values = np.ones((4, 4), np.float32)
    spoilt = values.copy()
    spoilt[1] = np.nan
    known = Finding("nan_in_input", "data", "the input of step 0 holds NaN", 0.9, 0, Where(), "")
    a = kept(tmp_path / "a", values)

    def cause(name: str, *findings: Finding) -> str:
        found = tensight.compare(a, kept(tmp_path / name, spoilt, findings)).first_divergence
        assert found is not None
        return found.likely_cause

    alone = "B has 4 NaN of 16 values here, the other side has not"
    assert cause("b", known) == f"{alone}; B has a finding of its own since step 0: the input of step 0 holds NaN"
    assert cause("without") == alone
    assert cause("later", msgspec.structs.replace(known, since_step=1)) == alone
    assert cause("other", msgspec.structs.replace(known, fault="lr_too_low")) == alone


@pytest.mark.parametrize(
    ("verdict", "a", "b", "said"),
    [
        ("backward_or_update", 1.0, 2.0, "look at the backward pass or the update"),
        ("backward_or_update", 1.0, np.nan, "B is no longer finite there; `tensight explain` says why"),
        ("backward_or_update", np.inf, 2.0, "A is no longer finite there; `tensight explain` says why"),
        ("forward", np.nan, 2.0, "look at the forward pass"),
    ],
)
def test_a_loss_that_is_nan_in_one_run_is_not_laid_to_the_update(
    verdict: Any, a: float, b: float, said: str, tmp_path: Path
) -> None:
    run = kept(tmp_path / "a", np.ones((2, 2), np.float32))
    found = msgspec.structs.replace(tensight.compare(run, run), loss=LossVerdict(22, verdict, a, b))
    [line] = [line for line in told(found).splitlines() if line.startswith("loss ")]
    assert line.endswith(f": {said}")


def test_values_that_were_kept_are_compared_one_by_one(tmp_path: Path) -> None:
    values = np.random.RandomState(0).randn(4, 4).astype(np.float32)
    a = kept(tmp_path / "a", values)
    assert tensight.compare(a, kept(tmp_path / "same", values)).verdict == "identical"
    found = tensight.compare(a, kept(tmp_path / "other", values.T.copy()))
    assert found.first_divergence is not None
    assert (found.first_divergence.module, found.first_divergence.likely_cause) == (
        "fc",
        "B has the values of A transposed",
    )
    assert found.rows[0]["cosine"] < 0.9
    assert found.rows[0]["max_abs"] == pytest.approx(float(np.abs(values - values.T).max()))


def test_the_command_writes_one_page_and_prints_losses_beside_each_other(
    base: dict[type[Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = record(tmp_path / "b", Seeing, optimizer=lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=1e-2))
    main(["compare", str(base[Seeing]), str(other), "--html", str(tmp_path / "pair.html"), "--rows", "3"])
    said = capsys.readouterr().out
    assert "losses    33 % of 3 steps within 1‰ of A's; the furthest apart at step 2" in said
    text = (tmp_path / "pair.html").read_text()
    assert "First divergence" in text
    assert "http://" not in text
    assert "https://" not in text


def test_parameters_of_two_models_stand_side_by_side(
    base: dict[type[Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def narrower(model: Any) -> None:
        model.head = nn.Linear(8, 5, bias=False)
        model.c2 = nn.Conv2d(6, 8, 5, stride=2, padding=1)

    other = record(tmp_path / "b", Seeing, narrower, steps=1)
    main(["params", str(base[Seeing]), str(base[Seeing])])
    assert "all parameters have a counterpart" in capsys.readouterr().out
    main(["params", "--json", str(base[Seeing]), str(other)])
    found = json.loads(capsys.readouterr().out)
    verdicts = {row["a"]: row["verdict"] for row in found["rows"]}
    assert found["same"] is False
    assert (verdicts["head.bias"], verdicts["c2.weight"], verdicts["c1.weight"]) == ("only_a", "shape", "same")
    assert found["total_a"] != found["total_b"]


def test_parameters_of_a_run_and_of_a_checkpoint_of_the_other_framework(
    base: dict[type[Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(Seeing().state_dict(), tmp_path / "a.pt")
    main(["ckpt", "convert", str(tmp_path / "a.pt"), str(tmp_path / "a.ckpt")])
    capsys.readouterr()
    main(["params", "--json", str(base[Seeing]), str(tmp_path / "a.ckpt")])
    rows = {row["a"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (rows["bn.running_var"]["b"], rows["bn.running_var"]["verdict"]) == ("bn.moving_variance", "same")
    assert (rows["bn.weight"]["b"], rows["head.weight"]["b"]) == ("bn.gamma", "head.weight")


def test_a_run_is_identical_to_itself_also_where_a_rank_has_recorded_nothing() -> None:
    golden = Path(__file__).parents[1] / "store" / "golden"
    for run in sorted(golden.glob("v*")):
        found = tensight.compare(run, run)
        assert (found.verdict, found.steps) == ("identical", 260)
        assert found.reason == "rank 1 was left out: neither run has recorded a tensor that could be compared"


def test_what_was_not_recorded_is_not_laid_to_the_names(base: dict[type[Any], Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    writer = Writer(empty, run_info())
    writer.step(StepRecord(0, 0.0, 0.1))
    writer.close()
    assert tensight.compare(empty, empty).reason == "neither run has recorded a tensor that could be compared"
    found = tensight.compare(next(iter(base.values())), empty)
    assert found.verdict == "not_comparable"
    assert found.reason == "B has recorded no tensor that could be compared"
