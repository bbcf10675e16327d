"""What is found in an unmodified program: models, optimizers, and the parts around them."""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

from .conftest import Watch


def step(net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()


def test_a_model_is_named_by_the_users_variable(watch: Watch) -> None:
    sink = watch()
    resnet = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    resnet(torch.ones(1, 2))
    assert list(sink.networks) == ["resnet"]
    assert sink.networks["resnet"].type == "Sequential"


def test_a_model_is_named_by_the_attribute_that_holds_it(watch: Watch) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.policy = nn.Linear(2, 2)

        def run(self) -> torch.Tensor:
            return self.policy(torch.ones(1, 2))

    sink = watch()
    Trainer().run()
    assert list(sink.networks) == ["policy"]


def test_a_model_without_a_name_goes_by_its_class(watch: Watch) -> None:
    sink = watch()
    [nn.Linear(2, 2)][0](torch.ones(1, 2))
    assert list(sink.networks) == ["Linear"]


def test_two_models_of_one_name_are_told_apart(watch: Watch) -> None:
    sink = watch()
    for _ in range(2):
        net = nn.Linear(2, 2)
        net(torch.ones(1, 2))
    assert list(sink.networks) == ["net", "net-2"]


def test_submodules_throw_away_modules_and_losses_are_no_networks(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    out = nn.Softmax(dim=1)(net(torch.ones(1, 2)))
    nn.MSELoss()(out, torch.ones(1, 2)).backward()
    net[0](torch.ones(1, 2))
    assert list(sink.networks) == ["net"]


def test_a_part_that_is_called_by_itself_belongs_to_the_model_that_holds_it(watch: Watch) -> None:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(4, 2)
            self.decoder = nn.Linear(2, 4)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(x)

    sink = watch()
    vae = Vae()
    vae.decoder(vae.encode(torch.ones(1, 4))).sum().backward()
    assert list(sink.networks) == ["vae"]
    assert sink.names("output") == ["encoder", "decoder"]


def test_a_weight_that_torch_calculates_from_others_is_no_network_and_reading_it_no_call(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(3, 4), spectral_norm(nn.Linear(4, 2)))  # tried out by torch when it is made
    assert sink.networks == {}
    net(torch.ones(1, 3)).sum().backward()
    (net[1].weight ** 2).sum().backward()  # a penalty on it
    assert list(sink.networks) == ["net"]
    assert sum(kind == "forward" for _, kind, *_ in sink.events) == 1
    assert any(seen.info.node.startswith("1.parametrizations") for seen in sink.seen)  # inside a call it is looked at


def test_a_copy_of_a_model_is_a_model_of_its_own(watch: Watch) -> None:
    sink = watch()
    student = nn.Sequential(nn.Linear(2, 2))
    student(torch.ones(1, 2))
    teacher = copy.deepcopy(student)
    teacher(torch.ones(1, 2))
    assert list(sink.networks) == ["student", "teacher"]


def test_modules_say_where_they_were_created_and_with_what(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(
        nn.Linear(2, 2),
        nn.Dropout(0.25),
    )
    net(torch.ones(1, 2))
    dropout = sink.networks["net"].modules[2]
    assert dropout.path == "1"
    assert dropout.settings["p"] == 0.25
    assert dropout.source is not None
    assert dropout.source.code == "nn.Dropout(0.25),"
    assert dropout.source.file.endswith("test_finding.py")


def test_roles_tell_weights_biases_norms_and_embeddings_apart(watch: Watch) -> None:
    sink = watch()
    net = nn.ModuleDict({"e": nn.Embedding(3, 4), "n": nn.LayerNorm(4), "l": nn.Linear(4, 4)})
    net["l"](net["n"](net["e"](torch.tensor([1]))))
    roles = {parameter.name: parameter.role for parameter in sink.networks["net"].parameters}
    assert roles == {
        "e.weight": "embedding",
        "n.weight": "norm_scale",
        "n.bias": "norm_shift",
        "l.weight": "weight",
        "l.bias": "bias",
    }


def test_a_tied_weight_is_one_parameter_observed_once(watch: Watch) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(x))

    sink = watch()
    net = Tied()
    step(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.tensor([1, 2]))
    tied = {parameter.name: parameter.tied_to for parameter in sink.networks["net"].parameters}
    assert tied == {"embed.weight": "", "head.weight": "embed.weight"}
    assert [one.info.name for one in sink.of("gradient")] == ["embed.weight"]
    assert [one.info.name for one in sink.of("weight") if one.phase == "update"] == ["embed.weight"]


def test_parameters_in_a_plain_list_are_found_and_said_to_be_unregistered(watch: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Linear(4, 4), nn.Linear(4, 4)]
            self.gains = {"a": nn.Parameter(torch.ones(4))}
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(x) * self.gains["a"]
            return self.head(x)

    sink = watch()
    net = Net()
    step(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.ones(1, 4))
    loose = {p.name for p in sink.networks["net"].parameters if not p.registered}
    assert loose == {"blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias", "gains.a"}
    assert {p.optimizer for p in sink.networks["net"].parameters if not p.registered} == {""}
    assert "blocks.1" in sink.names("output")
    assert {"blocks.0.weight", "gains.a"} <= set(sink.names("gradient"))


def test_an_optimizer_says_what_it_holds_and_with_which_settings(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    step(net, optimizer, torch.ones(1, 2))
    part = sink.parts["optimizer", "SGD"]
    assert part.parameters == ("net:weight", "net:bias")
    assert part.settings["lr"] == 0.5
    assert part.settings["momentum"] == 0.9
    assert part.source.code == "optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)"


def test_a_replaced_head_is_held_by_no_optimizer_and_the_old_one_is_unknown(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    step(net, optimizer, torch.ones(1, 2))
    assert sink.parts["optimizer", "SGD"].unknown_parameters == 0
    net[1] = nn.Linear(2, 4)
    step(net, optimizer, torch.ones(1, 2))
    described = {parameter.name: parameter for parameter in sink.networks["net"].parameters}
    assert described["1.weight"].shape == (4, 2)
    assert {name: p.optimizer for name, p in described.items()} == {
        "0.weight": "SGD",
        "0.bias": "SGD",
        "1.weight": "",
        "1.bias": "",
    }
    assert sink.parts["optimizer", "SGD"].unknown_parameters == 2
    new_head = [one for one in sink.of("weight", node="1", slot="weight") if one.step == 1 and one.phase == "update"]
    assert new_head[0].stats.change is not None
    assert new_head[0].stats.change.equal == 8


def test_an_optimizer_of_the_users_own_is_found(watch: Watch) -> None:
    class Mine(torch.optim.Optimizer):
        def __init__(self, params) -> None:
            super().__init__(params, {"lr": 0.1})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p -= group["lr"] * p.grad

    sink = watch()
    net = nn.Linear(2, 2)
    step(net, Mine(net.parameters()), torch.ones(1, 2))
    assert sink.parts["optimizer", "Mine"].settings["lr"] == 0.1
    assert "updated Mine" in sink.calls


def test_a_parameter_of_no_network_is_watched_under_its_optimizer(watch: Watch) -> None:
    sink = watch()
    temperature = nn.Parameter(torch.ones(()))
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*net.parameters(), temperature], lr=0.1)
    (net(torch.ones(1, 2)).sum() * temperature).backward()
    optimizer.step()
    assert sink.parts["optimizer", "SGD"].unknown_parameters == 1
    assert "SGD.2" in sink.names("gradient")


def test_a_second_group_added_later_is_noticed(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(net[0].parameters(), lr=0.1)
    step(net, optimizer, torch.ones(1, 2))
    assert {p.name for p in sink.networks["net"].parameters if not p.optimizer} == {"1.weight", "1.bias"}
    optimizer.add_param_group({"params": list(net[1].parameters()), "lr": 0.2})
    step(net, optimizer, torch.ones(1, 2))
    assert {p.optimizer for p in sink.networks["net"].parameters} == {"SGD"}
    assert (1, "lr/SGD/1", 0.2) in sink.scalars


def test_freezing_a_part_is_described(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step(net, optimizer, torch.ones(1, 2))
    net[0].requires_grad_(False)
    step(net, optimizer, torch.ones(1, 2))
    trainable = {parameter.name: parameter.trainable for parameter in sink.networks["net"].parameters}
    assert trainable == {"0.weight": False, "0.bias": False, "1.weight": True, "1.bias": True}


def test_a_lazy_module_is_described_again_when_its_shape_is_known(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.LazyLinear(3))
    net(torch.ones(2, 5))
    assert sink.networks["net"].parameters[0].shape == (3, 5)


def test_a_loader_is_found_with_its_batches(watch: Watch) -> None:
    sink = watch()
    loader = DataLoader(TensorDataset(torch.arange(12.0).view(6, 2), torch.arange(6)), batch_size=2)
    for _x, _y in loader:
        pass
    part = sink.parts["loader", "DataLoader"]
    assert part.settings["batch_size"] == 2
    assert part.settings["shuffle"] is False
    assert part.settings["batches"] == 3
    batches = sink.kinds("batch")
    assert [values["index"] for values in batches] == [0, 1, 2]
    assert batches[1]["size"] == 2
    assert batches[1]["shape.0"] == "2x2"
    assert batches[1]["min.0"] == 4.0
    assert batches[1]["max.1"] == 3
    assert not any("repeat_of" in values for values in batches)


def test_a_batch_that_comes_twice_in_an_epoch_names_the_step_it_came_in_before(watch: Watch) -> None:
    sink = watch()
    loader = DataLoader([torch.ones(2), torch.ones(2), torch.zeros(2)], batch_size=1)
    for _ in loader:
        pass
    assert [values.get("repeat_of") for values in sink.kinds("batch")] == [None, 0, None]


def test_workers_of_a_loader_report_nothing_and_batches_are_seen(watch: Watch) -> None:
    sink = watch()
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=1, multiprocessing_context="fork")
    assert len(list(loader)) == 2
    assert len(sink.kinds("batch")) == 2


def test_wrappers_are_no_part_of_a_name_and_no_second_call(watch: Watch) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), checkpoint_wrapper(nn.Linear(2, 2)))
    parallel = nn.DataParallel(net)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    step(parallel, optimizer, torch.ones(1, 2))
    assert list(sink.networks) == ["net"]
    assert [module.path for module in sink.networks["net"].modules] == ["", "0", "1"]
    assert [parameter.name for parameter in sink.networks["net"].parameters] == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
    ]
    assert sink.names("output") == ["0", "1", ""]
    assert sink.parts["optimizer", "SGD"].parameters[-1] == "net:1.bias"


def test_schedulers_are_found_and_their_steps_told(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    assert sink.kinds("scheduler_step") == []
    step(net, optimizer, torch.ones(1, 2))
    scheduler.step()
    part = sink.parts["scheduler", "StepLR"]
    assert part.settings["optimizer"] == "SGD"
    assert part.settings["gamma"] == 0.5
    assert sink.kinds("scheduler_step") == [{"lr": 0.5, "count": 1}]
    step(net, optimizer, torch.ones(1, 2))
    assert [value for _, name, value in sink.scalars if name == "lr"] == [1.0, 0.5]


def test_a_scheduler_that_overrides_step_is_told_once(watch: Watch) -> None:
    sink = watch()
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    optimizer.step()
    scheduler.step(1.0)
    assert len(sink.kinds("scheduler_step")) == 1
    assert ("scheduler", "ReduceLROnPlateau") in sink.parts


def test_what_a_plateau_was_looked_for_in_is_told_with_each_cut_of_the_rate(watch: Watch) -> None:
    sink = watch()
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=0)
    optimizer.step()
    scheduler.step(3.0)
    assert "cuts" not in sink.parts["scheduler", "ReduceLROnPlateau"].settings
    for metric in (2.0, torch.tensor(1.0)):
        scheduler.step(metric)
    told = sink.parts["scheduler", "ReduceLROnPlateau"].settings
    assert (told["mode"], told["cuts"], told["cuts_at_lowest"]) == ("max", 2, 2)
    assert (told["first_metric"], told["metric_at_cut"], told["last_metric"]) == (3.0, 2.0, 1.0)


def test_the_mode_of_a_wrapped_model_is_that_of_the_model_inside(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    wrapped = nn.DataParallel(net, device_ids=[])
    net.eval()  # the wrapper is left as it was
    wrapped(torch.ones(1, 2))
    net.train()
    wrapped(torch.ones(1, 2))
    assert [told["training"] for told in sink.kinds("forward")] == [False, True]


def test_clipping_tells_norm_and_limit(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(torch.tensor([[3.0, 4.0]])).backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert norm.item() == 5.0
    torch.nn.utils.clip_grad_value_(net.parameters(), 0.1)
    optimizer.step()
    assert sink.kinds("clip") == [{"max_norm": 1.0, "norm": 5.0}, {"max_value": 0.1}]
    assert sink.of("gradient")[0].stats.max == torch.tensor(0.1).item()


def test_switching_modes_is_told_with_the_line(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    net.train()
    net(torch.ones(1, 2))
    net.eval()
    net[1].train()
    modes = [(values["node"], values["training"]) for values in sink.kinds("mode")]
    assert modes == [("", True), ("", False), ("1", True)]
    assert [source.code for _, kind, _, _, source in sink.events if kind == "mode"][1] == "net.eval()"


def test_pickling_saving_and_scripting_a_watched_model_works_as_without(watch: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(torch.sigmoid(self.fc(x)))

    watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.extra = F.gelu
    net(torch.ones(1, 2)).sum().backward()
    file = io.BytesIO()
    torch.save(net, file)
    assert b"tensight" not in file.getvalue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of scripting as such
        scripted = torch.jit.script(Net())
    assert scripted(torch.ones(1, 2)).shape == (1, 2)
    traced = torch.fx.symbolic_trace(Net())
    assert "tensight" not in traced.code


def test_a_model_is_let_go_with_everything_kept_of_it(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.ones(1, 2)
    step(net, optimizer, x)
    gone = [weakref.ref(net[0].weight), weakref.ref(net), weakref.ref(x)]
    del net, optimizer, x
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]
    assert len(sink.adapter.updates._copies) == 0
