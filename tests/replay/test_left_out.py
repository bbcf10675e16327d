"""Memory that a copy of the process does without: zeros for the copy, pages for free for the training."""

from __future__ import annotations

import os
import sys

import pytest
import torch
from torch import nn

from tensight.frameworks.torch.room import Room
from tensight.frameworks.torch.snapshot import Parts, Snapshot
from tensight.replay import pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system cannot leave memory out of a copy")


def _in_a_copy(question) -> bool:
    """What a copy of this process answers."""
    copy = os.fork()
    if not copy:
        os._exit(0 if question() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.nbytes


def test_a_copy_has_zeros_where_memory_is_left_out_and_the_process_keeps_its_values() -> None:
    values, beside = torch.ones(1 << 20), torch.ones(1 << 20)
    with pages.left_out([_place(values)]):
        assert _in_a_copy(lambda: values[1 << 19] == 0 and beside.sum() == 1 << 20)
    assert values.sum() == 1 << 20


def test_later_copies_have_the_values_again_even_behind_an_error() -> None:
    values = torch.ones(1 << 20)
    with pytest.raises(OSError), pages.left_out([_place(values)]):
        raise OSError("no process can be made")
    assert _in_a_copy(lambda: values.sum() == 1 << 20)


def test_what_shares_a_page_with_something_else_stays() -> None:
    values = torch.ones(1 << 20)
    middle = values[1 : 1 << 19]
    with pages.left_out([_place(middle)]):
        assert _in_a_copy(lambda: values[0] == 1 and (values[1 << 19 :] == 1).all())


def test_memory_that_cannot_be_left_out_is_copied_as_ever() -> None:
    shared = torch.ones(1 << 20).share_memory_()
    with pages.left_out([_place(shared), (0, 1 << 20)]):
        assert _in_a_copy(lambda: shared.sum() == 1 << 20)


def test_pages_that_were_left_out_are_not_copied_when_the_training_writes_them() -> None:
    def written(pieces) -> int:
        child, go = os.pipe()
        with pages.left_out(pieces):
            copy = os.fork()
        if not copy:
            os.close(go)
            os.read(child, 1)  # it shares the memory until then
            os._exit(0)
        before = pages.written()
        values.add_(1)
        found = pages.written() - before
        os.close(go)
        os.close(child)
        os.waitpid(copy, 0)
        return found

    values = torch.ones(1 << 20)
    shared = written([])
    assert written([_place(values)]) < shared / 2


def test_a_copy_that_puts_the_kept_state_back_has_all_of_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.Linear(512, 512))
    optimizer = torch.optim.Adam(net.parameters())
    snapshot = Snapshot()
    snapshot._parts = Parts([*net.modules()], [optimizer])

    def step() -> None:
        optimizer.zero_grad()
        net(torch.rand(8, 512)).square().mean().backward()
        optimizer.step()

    step()
    snapshot.take(search=False)
    kept = [value.clone() for value in (*net.state_dict().values(), *_moments(optimizer))]
    step()

    def same() -> bool:
        snapshot.put_back()
        back = [*net.state_dict().values(), *_moments(optimizer)]
        return len(back) == len(kept) and all(map(torch.equal, back, kept))

    with pages.left_out(snapshot.replaced()):
        assert _in_a_copy(same)


def _moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [entry[name] for entry in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq", "step")]


def test_copies_of_weights_are_in_memory_that_no_copy_of_the_process_shares() -> None:
    [copied] = Room().hand_out([torch.ones(1 << 20)])
    copied.fill_(1)
    assert _in_a_copy(lambda: not copied.any())
    assert copied.all()
