"""What is told beside tensors: what attention looks at, formats, workers, lines that cut, permutations."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from tensight.frameworks.torch.worker_seeds import marks

from .conftest import Watch


class Attending(nn.Module):
    """Self-attention over 6 positions, by one of three ways."""

    def __init__(self, way: str, **options) -> None:
        super().__init__()
        self.way, self.options = way, options
        self.embedding = nn.Embedding(9, 8)
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 9)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.way == "heads":
            x = self.heads(x, x, x, need_weights=False, **self.options)[0]
        elif self.way == "product":
            x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], **self.options)[:, 0]
        else:
            scores = x @ x.transpose(1, 2)
            if "mask" in self.options:
                scores = scores.masked_fill(self.options["mask"], float("-inf"))
            x = torch.softmax(scores, -1) @ x
        return self.out(x)


SHUT = torch.triu(torch.ones(6, 6), 1).bool()


@pytest.mark.parametrize(
    ("way", "options", "future"),
    [
        ("product", {}, True),
        ("product", {"is_causal": True}, False),
        ("product", {"attn_mask": ~SHUT}, False),
        ("product", {"attn_mask": torch.zeros(6, 6).masked_fill(SHUT, float("-inf"))}, False),
        ("heads", {}, True),
        ("heads", {"attn_mask": SHUT}, False),
        ("heads", {"attn_mask": SHUT, "is_causal": True}, False),
        ("softmax", {}, True),
        ("softmax", {"mask": SHUT}, False),
    ],
)
def test_whether_attention_sees_the_future_is_told(watch: Watch, way: str, options: dict, future: bool) -> None:
    sink = watch()
    text = torch.randint(0, 9, (4, 7))
    F.cross_entropy(Attending(way, **options)(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).backward()
    told = sink.kinds("attention")
    assert [one["future"] for one in told] == [future]
    assert sink.kinds("loss")[0]["target_shift"] == 1


def test_a_mask_of_zeros_and_ones_in_numbers_is_told(watch: Watch) -> None:
    sink = watch()
    Attending("heads", attn_mask=SHUT.float())(torch.randint(0, 9, (4, 6)))
    Attending("product", attn_mask=SHUT.float() * -1e9)(torch.randint(0, 9, (4, 6)))
    assert [bool(one.get("binary")) for one in sink.kinds("attention")] == [True, False]


@pytest.mark.parametrize("from_source", [True, False])
def test_which_sequence_the_keys_come_from_is_told(watch: Watch, from_source: bool) -> None:
    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 8), nn.Linear(8, 9)

        def forward(self, source, target):
            x = self.words(target)
            keys = self.words(source if from_source else target)
            return self.out(F.scaled_dot_product_attention(x, keys, keys))

    sink = watch()
    source, target = torch.arange(12).reshape(2, 6) % 9, torch.arange(12).reshape(2, 6) * 5 % 9
    Reading()(source, target).sum().backward()
    assert [one["keys_of"] for one in sink.kinds("attention")] == ["0" if from_source else "1"]


@pytest.mark.parametrize("pooled", [True, False])
def test_weights_over_the_first_dimension_are_told_unless_they_sum_it_up(watch: Watch, pooled: bool) -> None:
    class Weighing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.out = nn.Linear(5, 2), nn.Linear(5, 3)

        def forward(self, x):
            weights = torch.softmax(self.score(x), 0)
            return self.out(weights.T @ x if pooled else weights.sum(1, keepdim=True) * x)

    sink = watch()
    Weighing()(torch.randn(12, 5)).pow(2).mean().backward()
    assert len(sink.kinds("over_rows")) == (0 if pooled else 1)


def test_attention_that_looks_at_padding_only_is_told(watch: Watch) -> None:
    sink = watch()
    text = torch.randint(1, 9, (4, 6))
    text[:, 4:] = 0
    Attending("heads", key_padding_mask=text != 0)(text)
    Attending("heads", key_padding_mask=text == 0)(text)
    assert [one["only_padding"] for one in sink.kinds("attention")] == [True, False]


def test_targets_that_are_the_input_itself_are_told_as_not_shifted(watch: Watch) -> None:
    sink = watch()
    text = torch.randint(0, 9, (4, 6))
    F.cross_entropy(Attending("product")(text).flatten(0, 1), text.flatten()).backward()
    assert sink.kinds("loss")[0]["target_shift"] == 0


class Converting(nn.Module):
    def __init__(self, away: torch.dtype) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.away = away

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).to(self.away).to(torch.float32)
        return x


def test_round_trips_between_formats_are_told_once_a_step(watch: Watch) -> None:
    sink = watch()
    net = Converting(torch.float16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    (told,) = sink.kinds("casts")
    assert (told["home"], told["away"], told["trips"], told["casts"]) == ("float32", "float16", 3, 6)


def test_sums_in_float32_inside_a_half_precision_network_are_no_round_trips(watch: Watch) -> None:
    class Norm(nn.Module):
        def forward(self, x):
            return (x.float() / x.float().norm()).to(x.dtype)

    sink = watch()
    net = nn.Sequential(nn.Linear(4, 4), Norm(), nn.Linear(4, 4), Norm()).bfloat16()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    assert sink.kinds("casts") == []


def test_ids_that_a_small_format_cannot_hold_are_told_where_they_were_put_into_it(watch: Watch) -> None:
    sink = watch()
    ids = torch.arange(0, 5000, 7)
    stored = ids.float().half()  # here
    stored.long()
    torch.arange(200).half().long()  # these fit
    (told,) = sink.kinds("cast_loss")
    assert (told["dtype"], told["what"], told["exact_to"]) == ("float16", "numbers", 2048)
    source = next(event[4] for event in sink.events if event[1] == "cast_loss")
    assert source.code.endswith("# here")


def test_positions_that_collide_are_told(watch: Watch) -> None:
    sink = watch()
    torch.arange(600).to(torch.bfloat16)
    (told,) = sink.kinds("cast_loss")
    assert (told["what"], told["of"]) == ("positions", 600)
    assert told["lost"] > 0


def test_a_permutation_that_moves_one_tensor_alone_is_told_with_its_line(watch: Watch) -> None:
    sink = watch()
    inputs, labels = torch.randn(32, 3), torch.randn(32, 1)
    both, alone = torch.randperm(32), torch.randperm(32)
    inputs, labels = inputs[both], labels[both]
    inputs = inputs[alone]  # the guilty line
    net = nn.Linear(3, 1)
    F.mse_loss(net(inputs), labels).backward()
    (told,) = [event for event in sink.events if event[1] == "permuted"]
    assert told[4].code.endswith("# the guilty line")
    assert "__getitem__" not in vars(torch.Tensor)


def _trained_after(*ways: str) -> None:
    """Lists of inputs and labels that are put into a new order, then one backward pass."""
    words, labels = [[at, at + 1, 7] for at in range(40)], [at % 2 for at in range(40)]
    both, numbers = list(zip(words, labels)), list(range(40))
    for way in ways:
        if way == "sample":
            random.Random(3).sample(words, len(words))  # the guilty line
        elif way == "shuffle":
            random.shuffle(labels)  # the guilty line
        elif way == "array":
            np.random.shuffle(np.random.rand(40))  # the guilty line
        elif way == "few":
            random.sample(words, 8)
        elif way == "pairs":
            random.shuffle(both)
        elif way == "numbers":
            random.shuffle(numbers)
        elif way == "seeded":
            random.Random(3).shuffle(labels)
    nn.Linear(3, 1)(torch.randn(4, 3)).sum().backward()


@pytest.mark.parametrize("way", ["sample", "shuffle", "array"])
def test_a_list_of_values_that_is_shuffled_is_told_with_its_line(watch: Watch, way: str) -> None:
    sink = watch()
    _trained_after(way)
    (told,) = [event for event in sink.events if event[1] == "permuted"]
    assert told[3]["values"] is True
    assert told[4].code.endswith("# the guilty line")


@pytest.mark.parametrize("ways", [("pairs",), ("numbers",), ("few",), ("sample", "seeded")])
def test_samples_shuffled_whole_or_by_the_same_state_are_not_told(watch: Watch, ways: tuple[str, ...]) -> None:
    sink = watch()
    _trained_after(*ways)
    assert [event for event in sink.events if event[1] == "permuted"] == []


def test_shuffling_gives_what_it_gave_before(watch: Watch) -> None:
    bare = [random.Random(5).sample(range(30), 30), list(np.random.RandomState(2).permutation(20))]
    np.random.seed(2)
    watch()
    assert random.Random(5).sample(range(30), 30) == bare[0]
    assert list(np.random.permutation(20)) == bare[1]


@pytest.mark.parametrize("shuffled", [False, True])
def test_tokens_are_asked_for_their_labels(watch: Watch, shuffled: bool) -> None:
    sink = watch()
    draw = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (480,), generator=draw)
    own = labels[:, None] * 10 + torch.randint(0, 10, (480, 7), generator=draw)
    tokens = torch.cat([own, torch.randint(40, 80, (480, 7), generator=draw)], 1)
    labels = labels[torch.randperm(480, generator=draw)] if shuffled else labels
    net = nn.Sequential(nn.EmbeddingBag(80, 8), nn.Linear(8, 4))
    for batch, wanted in zip(tokens.split(120), labels.split(120)):
        F.cross_entropy(net(batch), wanted).backward()
    (told,) = [value for _, name, value in sink.scalars if name == "probe/token_information"]
    assert (told == 0.0) is shuffled


def test_lines_that_cut_the_graph_are_told(watch: Watch) -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front, self.back = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x):
            return self.back(self.front(x).detach())

    sink = watch()
    Cut()(torch.ones(2, 3)).sum().backward()
    told = [event for event in sink.events if event[1] == "cut" and event[3]["module"] == ""]
    assert [(event[3]["function"], event[4].code) for event in told] == [
        ("detach", "return self.back(self.front(x).detach())")
    ]


def test_a_layer_that_is_made_in_every_forward_pass_is_told(watch: Watch) -> None:
    class Making(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)

        def forward(self, x):
            return nn.Linear(3, 1)(nn.ReLU()(self.first(x)))

    sink = watch()
    net = Making()
    for step in range(4):
        sink.step = step
        net(torch.ones(2, 3)).sum().backward()
    told = [event for event in sink.events if event[1] == "stranger"]
    assert [event[3]["type"] for event in told] == ["Linear"] * 3
    assert told[0][4].code == "return nn.Linear(3, 1)(nn.ReLU()(self.first(x)))"


class Noisy(Dataset):
    def __init__(self, shared: bool) -> None:
        self.generator = np.random.RandomState(0) if shared else None

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = np.random.rand() if self.generator is None else self.generator.rand()
        return torch.tensor([index + drawn], dtype=torch.float32)


@pytest.mark.parametrize("shared", [True, False])
def test_workers_that_draw_the_same_numbers_are_told(watch: Watch, shared: bool) -> None:
    sink = watch()
    batches = list(DataLoader(Noisy(shared), batch_size=2, num_workers=2))
    assert len(batches) == 8
    told = [event for event in sink.events if event[1] == "workers"]
    if not shared:
        assert told == []
        return
    assert (told[0][3]["generator"], told[0][3]["same"], told[0][3]["workers"]) == ("dataset.generator", 2, 2)
    assert told[0][4].code.startswith("self.generator = np.random.RandomState(0)")


class Stored(Dataset):
    """Samples that are augmented, as copies or where they are stored."""

    def __init__(self, copies: bool) -> None:
        self.images, self.copies = torch.zeros(16, 3), copies

    def __len__(self) -> int:
        return 16

    def __getitem__(self, at: int) -> torch.Tensor:
        image = self.images[at].clone() if self.copies else self.images[at]
        image += torch.randn(3)
        return image


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("copies", [True, False])
def test_loaders_that_write_to_stored_samples_are_told(watch: Watch, copies: bool, workers: int) -> None:
    sink = watch()
    assert len(list(DataLoader(Stored(copies), batch_size=2, num_workers=workers))) == 8
    assert sink.kinds("stored_written") == ([] if copies else [{"attribute": "images"}])
    assert sink.kinds("workers") == []


def test_reading_the_states_of_generators_draws_nothing() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    data = Noisy(True)
    before = marks(data)
    assert marks(data) == before
    assert set(before) == {"random", "torch", "numpy", "dataset.generator"}
    drawn = (random.random(), np.random.rand(), torch.rand(1).item())
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == drawn


def test_how_many_samples_a_sampler_draws_and_how_many_of_them_differ_is_told(watch: Watch) -> None:
    sink = watch()
    data = TensorDataset(torch.randn(60, 3), torch.zeros(60))
    by_class = WeightedRandomSampler(torch.tensor([0.2, 0.8]), num_samples=60)
    for _ in DataLoader(data, batch_size=20, sampler=by_class):
        pass
    for _ in DataLoader(data, batch_size=20, shuffle=True):
        pass
    drawn = [(event[2], event[3]["drawn"], event[3]["distinct"]) for event in sink.events if event[1] == "batch"]
    assert [counts for name, *counts in drawn if name == "DataLoader-2"] == [[20, 20], [40, 40], [60, 60]]
    assert all(distinct <= 2 for name, _, distinct in drawn if name == "DataLoader")
    settings = sink.parts["loader", "DataLoader"].settings
    assert (settings["samples"], settings["sampled"], settings["weighed"]) == (60, 60, 2)


def test_a_loss_without_gradients_is_told_as_a_score(watch: Watch) -> None:
    sink = watch()
    net, x = nn.Linear(3, 1), torch.randn(4, 3)
    with torch.no_grad():
        nn.functional.mse_loss(net(x), torch.zeros(4, 1))
    nn.functional.mse_loss(net(x), torch.zeros(4, 1)).backward()
    kinds = [event[1] for event in sink.events if event[1] in ("forward", "scored", "loss")]
    assert kinds == ["forward", "scored", "forward", "loss"]


def test_a_network_whose_inputs_are_searched_for_is_told(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 1)
    net(torch.randn(4, 3, requires_grad=True)).sum().backward()
    net(torch.randn(4, 3)).sum().backward()
    asked = [event[3].get("input_requires_grad") for event in sink.events if event[1] == "forward"]
    assert asked == [True, None]


def test_labels_are_counted_while_they_are_all_the_same(watch: Watch) -> None:
    sink = watch()
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    for label in (0, 0, 1, 0):
        nn.functional.cross_entropy(net(x), torch.full((4,), label)).backward()
    assert [event[3].get("alike") for event in sink.events if event[1] == "loss"] == [4, 8, None, None]
