"""Along which axes a loss reads, what clamp holds, which units stay copies: told as evidence."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .conftest import Watch


def train(net: nn.Module, loss_of, steps: int = 2, lr: float = 0.01) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def test_rows_of_classes_that_are_cut_across_an_axis_are_told(watch: Watch) -> None:
    sink = watch()
    net, x, y = nn.Conv1d(1, 3, 1), torch.randn(2, 1, 8), torch.zeros(2, 8, dtype=torch.long)
    train(net, lambda: F.cross_entropy(net(x).view(-1, 3), y.view(-1)), 1)
    train(net, lambda: F.cross_entropy(net(x).transpose(1, 2).reshape(-1, 3), y.view(-1)), 1)
    assert [facts.get("rows_cut_from") for facts in sink.kinds("loss")] == ["2x3x8", None]


def test_classes_that_are_reshaped_into_place_are_told_and_those_that_are_moved_are_not(watch: Watch) -> None:
    sink = watch()
    net, x, y = nn.Linear(4, 3), torch.randn(2, 8, 4), torch.zeros(2, 9, dtype=torch.long)[:, 1:]
    train(net, lambda: F.cross_entropy(net(x).reshape(2, 3, 8), y), 1)
    train(net, lambda: F.cross_entropy(net(x).transpose(1, 2), y), 1)
    train(net, lambda: F.cross_entropy(net(x).reshape(-1, 3), y.reshape(-1)), 1)
    assert [facts.get("class_axis") for facts in sink.kinds("loss")] == [2, None, None]


def test_targets_of_pairs_are_the_third_argument_and_their_zeros_are_counted(watch: Watch) -> None:
    sink = watch()
    net, x = nn.Linear(4, 4), torch.randn(4, 4)
    train(net, lambda: F.cosine_embedding_loss(net(x), x, torch.tensor([1, 0, 0, 0])), 1)
    (facts,) = sink.kinds("loss")
    assert (facts["target_zeros"], facts["target_min"], facts["target_max"]) == (0.75, 0, 1)


def test_probabilities_picked_along_another_axis_than_they_were_normalised_over_are_told(watch: Watch) -> None:
    sink = watch()
    net, x, y = nn.Linear(4, 3), torch.randn(5, 4), torch.zeros(5, 1, dtype=torch.long)
    train(net, lambda: -F.log_softmax(net(x), dim=0).gather(1, y).mean(), 1)
    train(net, lambda: -F.log_softmax(net(x), dim=1).gather(1, y).mean(), 1)
    assert [facts.get("picked_dim") for facts in sink.kinds("loss")] == [1, None]


def test_what_clamp_holds_is_told_with_its_range(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(4, 8)
    train(net, lambda: (net(torch.zeros(2, 4)).clamp(5.0, 9.0) - 6).square().mean(), 1)
    (facts,) = sink.kinds("held")
    assert (facts["share"], facts["min"], facts["max"]) == (1.0, 5.0, 9.0)
    assert facts["largest"] < 5


def test_what_exp_makes_huge_but_finite_is_told_and_what_it_leaves_ordinary_is_not(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(4, 8)
    train(net, lambda: net(torch.zeros(2, 4)).exp().mean(), 1)
    assert sink.kinds("grown") == []
    train(net, lambda: torch.exp(net(torch.zeros(2, 4)) + 20).log().mean(), 1)
    train(net, lambda: torch.exp(net(torch.zeros(2, 4)) + 200).mean(), 1)  # inf: other eyes see that
    (facts,) = sink.kinds("grown")
    assert (facts["function"], facts["module"]) == ("exp", "")
    assert 19 < facts["given"] < 22
    assert facts["largest"] > 1e8


class Experts(nn.Module):
    def __init__(self, *, same: bool) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 2) for _ in range(3))
        if same:
            for expert in self.experts:
                expert.load_state_dict(self.experts[0].state_dict())

    def forward(self, x):
        return sum(expert(x) for expert in self.experts)


def alike(watch: Watch, net: nn.Module) -> list[str]:
    sink = watch()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    train(net, lambda: (net(x) - x[:, :2]).square().mean(), 13)
    return [facts["name"] for facts in sink.kinds("alike")]


def test_modules_that_stay_copies_are_told_and_others_are_not(watch: Watch) -> None:
    torch.manual_seed(3)
    assert alike(watch, Experts(same=True)) == ["experts.0"]
    assert alike(watch, Experts(same=False)) == []


def test_rows_that_stay_copies_are_told_and_a_head_that_starts_at_zero_is_not(watch: Watch) -> None:
    torch.manual_seed(3)
    same, head = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    for layer in same:
        nn.init.constant_(layer.weight, 0.2)
        nn.init.zeros_(layer.bias)
    nn.init.zeros_(head[1].weight)
    assert "0.weight" in alike(watch, same)
    assert alike(watch, head) == []


class Factors(nn.Module):
    """Two tables whose rows are multiplied with each other."""

    def __init__(self, *, same: bool) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(12, 4), nn.Embedding(9, 4)
        if same:
            nn.init.constant_(self.users.weight, 0.1)
            nn.init.constant_(self.items.weight, 0.1)

    def forward(self, x):
        rows = torch.arange(len(x))
        return (self.users(rows) * self.items(rows)).sum(-1, keepdim=True)


def test_columns_of_a_table_that_stay_copies_are_told(watch: Watch) -> None:
    torch.manual_seed(3)
    assert alike(watch, Factors(same=True)) == ["users.weight", "items.weight"]
    assert alike(watch, Factors(same=False)) == []


def test_large_numbers_close_together_that_float32_cannot_tell_apart_are_told(watch: Watch) -> None:
    sink = watch()
    seconds = 1_731_000_000 + torch.arange(500)
    seconds.float()
    (seconds - seconds[0]).float()
    (seconds[::3] * 1000).double()
    (facts,) = sink.kinds("cast_loss")
    assert (facts["what"], facts["dtype"], facts["of"]) == ("times", "float32", 500)
    assert facts["lost"] > 480


def test_positions_made_in_a_small_format_are_told(watch: Watch) -> None:
    sink = watch()
    torch.arange(200, dtype=torch.bfloat16)
    torch.arange(600, dtype=torch.bfloat16)
    torch.arange(250, 300, dtype=torch.float32).to(torch.bfloat16)
    assert [facts["what"] for facts in sink.kinds("cast_loss")] == ["positions", "positions"]


def test_a_pooled_prediction_seen_as_rows_is_not_cut(watch: Watch) -> None:
    sink = watch()
    net, x, y = nn.Conv1d(1, 3, 8), torch.randn(4, 1, 8), torch.zeros(4, dtype=torch.long)
    train(net, lambda: F.cross_entropy(net(x).view(-1, 3), y), 1)
    assert [facts.get("rows_cut_from") for facts in sink.kinds("loss")] == [None]
