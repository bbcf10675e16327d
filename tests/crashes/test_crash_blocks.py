"""A crash gets a block: line, module, operator, what it was given, which disagrees and what to do."""

from __future__ import annotations

import copy
import traceback
from pathlib import Path
from typing import Any

import pytest
from torch.utils._python_dispatch import BaseTorchDispatchMode

from tensight.session.crashing import crash_of

PROGRAMS = Path(__file__).parent / "programs"


def crash(name: str) -> tuple[dict[str, Any], BaseException]:
    """Run a program as a script in this process and explain the exception that leaves it."""
    path = PROGRAMS / f"{name}.py"
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    except Exception as error:
        return crash_of(error), error
    raise AssertionError(f"{name} did not crash")


# program → module, operator, phase, line, a word of the title, words of the inputs, a word of the fix
CASES: dict[str, tuple[str | None, str, str, str, str, tuple[str, ...], str]] = {
    "linear_shape": (
        "head",
        "linear",
        "forward",
        "return self.head(self.body(x))",
        "takes 20 features and was given 10",
        ("input: float32[4, 10] on cpu", "self.weight: float32[5, 20] on cpu"),
        "nn.Linear(10, 5)",
    ),
    "conv_channels": (
        "0",
        "conv2d",
        "forward",
        "net(torch.randn(2, 28, 28, 3))",
        "takes 3 channels and was given 28",
        ("input: float32[2, 28, 28, 3] on cpu", "weight: float32[8, 3, 3, 3] on cpu"),
        "permute(0, 3, 1, 2)",
    ),
    "broadcast": (
        None,
        "sub",
        "",
        "loss = ((prediction - target) ** 2).mean()",
        "3 against 4 in dimension 1",
        ("prediction: float32[8, 3] on cpu", "target: float32[8, 4] on cpu"),
        "shapes",
    ),
    "dtype": (
        "0",
        "linear",
        "forward",
        "net(x)",
        "number formats do not fit",
        ("input: float64[3, 4] on cpu", "self.weight: float32[2, 4] on cpu"),
        "x.float()",
    ),
    "device": (
        "",
        "linear",
        "forward",
        "net(x)",
        "different devices",
        ("input: float32[3, 4] on cpu", "self.weight: float32[2, 4] on meta"),
        "one device",
    ),
    "backward_shape": (
        None,
        "matmul",
        "backward",
        "return gradient @ weight, x.t() @ gradient",
        "takes 4 features and was given 3",
        ("gradient: float32[6, 3] on cpu", "weight: float32[4, 3] on cpu"),
        "transpose it with .t()",
    ),
    "backward_twice": (None, "backward", "backward", "loss.backward()", "twice", (), "hidden.detach()"),
    "in_place": (None, "add", "backward", "out += 1", "changed in place: out += 1", (), "out of place"),
    "in_place_layer": ("block", "mul", "backward", "gate *= 2", "changed in place: gate *= 2", (), "out of place"),
    "in_place_part": (
        None,
        "copy_slices",
        "backward",
        "values[values < 0] = 0",
        "changed in place: values[values < 0] = 0",
        (),
        "torch.where",
    ),
    "in_place_weights": (
        None,
        "step",
        "backward",
        "critic_updates.step()",
        "updated between a forward and its backward: 2.weight",
        (),
        "before the first optimizer.step()",
    ),
    "embedding_index": (
        "table",
        "embedding",
        "forward",
        "return self.table(tokens).sum()",
        "outside the table",
        ("input: int64[2] on cpu, from 1 to 10", "weight: float32[10, 4] on cpu"),
        "num_embeddings",
    ),
    "target_class": (
        None,
        "cross_entropy_loss",
        "",
        "loss = nn.functional.cross_entropy(logits, labels)",
        "class 3",
        ("input: float32[4, 3] on cpu", "target: int64[4] on cpu, from 1 to 3"),
        "count classes from 0",
    ),
    "out_of_memory": (
        None,
        "sub",
        "",
        "table = rows - rows.view(1, -1)",
        "out of memory: sub wanted 65536.0 GiB",
        ("rows: float32[4194304, 1] on cpu",),
        "smaller batch",
    ),
    "pairs_memory": (
        None,
        "sub",
        "",
        "table = rows.unsqueeze(1) - rows.unsqueeze(0)",
        "out of memory: sub wanted 262144.0 GiB",
        ("rows: float32[1048576, 64] on cpu",),
        "smaller batch",
    ),
    "target_dtype": (
        None,
        "cross_entropy_loss",
        "",
        "loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).float())",
        "wants class numbers",
        ("target: float32[16] on cpu",),
        "target.long()",
    ),
    "no_return": (
        "2",
        "linear",
        "forward",
        "net(torch.randn(4, 4))",
        "2 was given None instead of a tensor",
        ("self.weight: float32[1, 8] on cpu",),
        "return",
    ),
    "compiled_shape": (
        "",
        "linear",
        "forward",
        "return self.head(hidden)",
        "takes 32 features and was given 24",
        ("input 0: [16, 24]",),
        "nn.Linear(24, 4)",
    ),
    "plain_python": (None, "index", "", "return scores[name].max()", "KeyError: 'valid'", (), ""),
    "detached_loss": (None, "backward", "backward", "loss.backward()", "not connected", (), "output itself"),
    "stack_shapes": (
        None,
        "stack",
        "",
        "batch = torch.stack(samples)",
        "different shapes",
        ("samples[0]: float32[3] on cpu", "samples[2]: float32[4] on cpu"),
        "collate_fn",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_crash_names_module_operator_line_and_what_it_was_given(name):
    module, operator, phase, code, title, inputs, fix = CASES[name]
    block, _ = crash(name)
    where = block["where"]
    assert where["code"] == code
    assert where["file"].endswith(f"{name}.py")
    assert (where["module"], where["op"], where["phase"] or "") == (module, operator, phase)
    assert title in block["title"]
    assert set(inputs) <= set(block["inputs"])
    assert fix in " ".join(block["fix"])
    assert block["why"]
    assert where["own_code"] == (name == "plain_python"), "a call of the framework failed, or the script itself"


def test_channels_are_not_looked_for_among_the_sides_of_a_square_picture() -> None:
    block, _ = crash("conv_square")
    assert "2 takes 16 channels and was given 8" in block["title"]
    assert block["fix"] == ["make the layer take 8 channels, or give it 16"]


def test_an_exception_in_a_loader_worker_is_traced_to_the_line_in_the_worker():
    block, _ = crash("loader_worker")
    assert block["where"]["code"] == "return torch.tensor(float(len(names[index])))"
    assert block["where"]["phase"] == "data"
    assert "DataLoader worker process 0" in block["why"]
    assert block["title"].startswith("KeyError: 1")


def test_tensors_written_as_a_list_are_told_one_by_one_and_where_they_part() -> None:
    block, _ = crash("cat_in_list")
    assert (block["where"]["op"], block["title"].rpartition(": ")[2]) == ("cat", "side differs")
    assert block["inputs"][:2] == ["up: float32[2, 4, 16] on cpu", "side: float32[2, 4, 15] on cpu"]
    assert "up and side have 16 against 15 in dimension 2" in block["why"]


def test_an_operator_that_fails_under_a_mode_goes_by_the_name_that_the_user_wrote() -> None:
    with BaseTorchDispatchMode():  # which calls each operator from Python
        block, _ = crash("cat_in_list")
    assert block["where"]["op"] == "cat"
    assert "side: float32[2, 4, 15] on cpu" in block["inputs"]


def test_the_letter_of_an_einsum_and_the_tensors_that_disagree_are_named() -> None:
    block, _ = crash("einsum_sizes")
    assert block["title"] == "einsum: j is 8 in one tensor and 7 in another"
    assert "[3, 8]" in block["why"]
    assert "[6, 7, 4] (written ijk)" in block["why"]


def test_a_part_that_was_renamed_since_the_checkpoint_was_written_is_told_with_what_else_differs() -> None:
    block, _ = crash("renamed_parts")
    assert "rename 'body.' to 'encoder.'" in block["fix"][0]
    assert "head.weight is [2, 4] in the checkpoint and [3, 4] in the model" in block["why"]


def test_the_backward_that_found_a_value_changed_is_told_beside_the_line_that_changed_it() -> None:
    block, _ = crash("in_place_layer")
    assert (
        "addmm keeps [5, 8] for its backward; loss.backward() (in_place_layer.py:31) found it changed" in block["why"]
    )


def test_lines_that_may_have_changed_a_value_are_all_named_where_nothing_tells_them_apart() -> None:
    block, _ = crash("in_place_twice")
    assert block["where"]["code"] == "(first.sum() + second.sum()).backward()"
    assert "first.mul_(2) (in_place_twice.py:6) or second.mul_(3) (in_place_twice.py:8)" in block["fix"][0]


def test_where_a_none_came_from_is_said() -> None:
    block, _ = crash("no_return")
    assert block["title"].startswith("2 was given None")
    assert "None comes out of" in block["why"]


def test_the_traceback_stays_as_it_was():
    _, error = crash("broadcast")
    before = copy.copy(traceback.format_exception(error))
    crash_of(error)
    assert traceback.format_exception(error) == before


def test_an_error_without_a_traceback_or_message_is_still_said():
    assert crash_of(ValueError())["title"] == "ValueError"


def test_what_failed_in_a_process_that_spawn_started_is_said_not_the_line_that_started_it() -> None:
    here = Path(__file__)
    number = 1 + next(i for i, line in enumerate(here.read_text().splitlines()) if line.startswith("PROGRAMS"))
    trace = f'Traceback (most recent call last):\n  File "{here}", line {number}, in worker\n    fail()\n'
    said = "[unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to complete"
    message = f"\n\n-- Process 1 terminated with the following error:\n{trace}RuntimeError: {said}\n"
    raised = type("ProcessRaisedException", (Exception,), {})
    try:
        raise raised(message)
    except Exception as error:
        found = crash_of(error)
    assert "a collective timed out" in found["title"]
    assert found["error"].startswith("RuntimeError: ")
    assert (found["where"]["line"], found["where"]["code"]) == (number, 'PROGRAMS = Path(__file__).parent / "programs"')
    assert "process 1" in found["why"]


def test_parameters_that_a_wrapper_waits_for_in_vain_are_named() -> None:
    block, _ = crash("ddp_unused")
    assert "never come: spare.weight, spare.bias" in block["title"]
    assert block["where"]["code"] == "loss = model(torch.randn(3, 4)).sum()"
    assert "find_unused_parameters=True" in " ".join(block["fix"])
