"""What ranks have told is compared: a bit in a weight counts, a buffer that follows a rank's own batches does not."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
import torch

from tensight.diagnosis.engine import Engine
from tensight.frameworks.torch.checksums import BLOCK, checksums
from tensight.records import Part, StepRecord
from tensight.runs.agreement import Check, Difference, Told, differences
from tensight.session import agreeing

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 3, 4 * BLOCK + 5])
def test_a_single_changed_bit_always_changes_the_checksum(dtype: torch.dtype, size: int) -> None:
    tensor = (3 * torch.randn(size)).to(dtype)
    before = checksums([tensor])
    raw = (torch.view_as_real(tensor) if dtype.is_complex else tensor).view(torch.uint8).view(-1)
    chosen = random.Random(size)
    for _ in range(50):
        place, bit = chosen.randrange(raw.numel()), 1 << chosen.randrange(8)
        raw[place] ^= bit
        assert checksums([tensor]) != before
        raw[place] ^= bit
    assert checksums([tensor]) == before


def test_a_checksum_depends_on_values_and_not_on_where_they_lie() -> None:
    tensor = torch.randn(40, 30)
    shifted = torch.cat((torch.zeros(1), tensor.reshape(-1)))[1:].view(40, 30)  # not on a border of eight bytes
    columns = tensor.t().contiguous().t()
    assert checksums([shifted, columns]) == checksums([tensor]) * 2
    assert checksums([]) == []
    assert checksums([torch.zeros(0)]) == checksums([torch.zeros(0)])


def test_values_that_move_to_another_block_are_seen() -> None:
    tensor = torch.randn(8 * BLOCK)
    swapped = torch.cat((tensor[4 * BLOCK :], tensor[: 4 * BLOCK]))
    assert checksums([swapped]) != checksums([tensor])


def told(kind: str, *by_rank: list[int], ranks: int | None = None, words: tuple[str, ...] = ()) -> list[Told]:
    """Ranks that have told one number at each check."""
    group = " ".join(str(rank) for rank in range(ranks or len(by_rank)))
    part = Part("agreement", "group", kind, {"network": "net", "ranks": group}, None, ("table",))
    return [
        Told(
            rank,
            (part,),
            tuple(
                Check("group", update, 2 * update, f"{value:016x}", words[rank] if words else "")
                for update, value in enumerate(values)
            ),
        )
        for rank, values in enumerate(by_rank)
    ]


@pytest.mark.parametrize(
    ("kind", "by_rank", "update"),
    [
        ("weight", ([1, 2, 3], [1, 2, 3]), None),
        ("weight", ([1, 2, 3], [1, 2, 4]), 2),
        ("weight", ([1, 2], [3, 4]), 0),
        ("gradient", ([5, 5, 1], [5, 6, 1]), 1),
        ("buffer", ([1, 1, 1], [1, 1, 2]), 2),  # one stands still, the other has changed
        ("buffer", ([1, 2, 3, 4], [1, 2, 3, 5]), 3),  # they have moved alike before
        ("buffer", ([1, 2, 3], [4, 5, 6]), None),  # each follows its own batches
        ("buffer", ([1, 1, 1, 2], [1, 1, 1, 3]), None),  # all change to something of their own
        ("copy", ([1, 2, 3, 4], [1, 2, 3, 9]), 3),
        ("alone", ([1, 2, 3], [1, 4, 5]), 1),  # trained without a wrapper, and alike at first
        ("alone", ([1, 2, 3], [4, 5, 6]), None),  # each rank has begun with its own
        ("exchanged", ([1, 2], [3, 4]), 0),  # put together a moment ago, and not alike
        ("start", ([1], [3]), 0),
        ("forgotten", ([1, 2, 3], [1, 4, 5]), 1),  # nobody was seen to average it, and alike at first
        ("single", ([1, 2, 3], [1, 4, 5]), 1),  # nobody averages anything
        ("single", ([1, 2, 3], [4, 5, 6]), None),
        ("forgotten", ([1, 2, 3], [4, 5, 6]), None),  # parts of one network, which belong to each rank
    ],
)
def test_what_counts_as_a_difference(kind: str, by_rank: tuple[list[int], ...], update: int | None) -> None:
    found = differences(told(kind, *by_rank))
    assert [(one.kind, one.step) for one in found] == ([] if update is None else [(kind, 2 * update)])


def test_the_ranks_that_agree_stand_together_and_the_last_check_before_is_named() -> None:
    (found,) = differences(told("weight", [1, 2], [1, 9], [1, 2], [1, 2]))
    assert found == Difference("weight", "net", "table", 2, 0, ((0, 2, 3), (1,)), agreed=0)


def test_nothing_is_said_before_every_rank_of_a_group_has_told() -> None:
    assert differences(told("weight", [1, 2], [3, 4], ranks=3)) == []


def test_a_rank_that_leaves_out_an_update_is_known_by_its_backward_passes() -> None:
    def passes(rank: int, update: int) -> int:
        return update + 1 + (rank == 1 and update >= 2)

    ranks = [
        msgspec.structs.replace(
            one,
            checks=tuple(msgspec.structs.replace(check, passes=passes(one.rank, check.update)) for check in one.checks),
        )
        for one in told("gradient", [1, 2, 3], [1, 2, 9])
    ]
    (found,) = differences(ranks)
    assert (found.step, found.left_out) == (4, (1,))
    engine = Engine()
    engine.part(Part("wrapper", "DistributedDataParallel", "DistributedDataParallel", {"ranks": 2}))
    engine.step(StepRecord(0, 0.0, 0.1, events=(found.event(),)))
    (finding,) = engine.findings
    assert (finding.fault, finding.since_step) == ("replicas_diverge", 4)
    assert "rank 1 left out an update" in finding.title


def findings(kind: str, *by_rank: list[int], words: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    engine = Engine()
    engine.part(Part("wrapper", "DistributedDataParallel", "DistributedDataParallel", {"ranks": len(by_rank)}))
    events = tuple(one.event() for one in differences(told(kind, *by_rank, words=words)))
    engine.step(StepRecord(0, 0.0, 0.1, events=events))
    return [(one.fault, one.why) for one in engine.findings]


def test_rules_say_it_at_once() -> None:
    ((fault, why),) = findings("weight", [1, 2], [1, 9], [1, 2])
    assert fault == "replicas_diverge"
    assert "rank 1 differs from ranks 0, 2" in why
    assert "At the check of step 0 they still were the same" in why
    ((fault, _),) = findings("gradient", [1], [2])
    assert fault == "gradients_not_averaged"
    assert findings("weight", [1, 2], [1, 2]) == []


def test_ranks_that_start_apart_are_told_from_those_that_part_later() -> None:
    ((fault, why),) = findings("start", [1], [2])
    assert fault == "replicas_diverge"
    assert "before the first update table was not the same on all ranks" in why
    ((fault, why),) = findings("forgotten", [1, 2], [1, 9])
    assert fault == "gradients_not_averaged"
    assert "that of table was not among them" in why


def test_collectives_that_part_are_named_on_both_sides() -> None:
    ((fault, why),) = findings("collective", [1], [2], words=("all_reduce of a", "broadcast of b"))
    assert fault == "collectives_out_of_order"
    assert "all_reduce of a against broadcast of b" in why


def test_what_ranks_leave_is_read_by_the_first_and_a_torn_file_is_passed_over(tmp_path: Path) -> None:
    left = told("weight", [1, 2], [1, 3])
    for one in left:
        agreeing.leave(tmp_path, one)
    assert agreeing.read(tmp_path) == left
    (tmp_path / "rank-1" / agreeing.FILE).write_bytes(b"\x92\x00")
    assert agreeing.read(tmp_path) == left[:1]
