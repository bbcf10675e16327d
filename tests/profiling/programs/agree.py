"""Sets our sums of a profile beside torch.profiler's own, and prints both."""

import json

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils.data import DataLoader, TensorDataset

from tensight.frameworks.timing import Done, Plan
from tensight.frameworks.torch.timing import TorchTiming
from tensight.frameworks.torch.timing_trace import OURS


def failed(where, error):
    raise error


timing = TorchTiming(Plan(warm=2, clock=3, trace=6, locate=0, least_seconds=0), failed=failed)
timing.attach()
torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(8192, 64), torch.randint(0, 8, (8192,)))
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8))
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
try:
    for x, y in DataLoader(data, batch_size=256):
        with record_function("my forward"):
            loss = loss_function(model(x), y)
        with record_function("my backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
except Done:
    pass
timing.detach()
profile = timing.profile()
averages = {one.key: one for one in timing._tracing.profiler.key_averages()}
ours: dict[str, float] = {}
calls: dict[str, int] = {}
for one in profile.operators:
    ours[one.name] = ours.get(one.name, 0.0) + one.seconds
    calls[one.name] = calls.get(one.name, 0) + one.calls
traced = [step for step in profile.steps if step.window == "trace"]
# what the loader, the optimizer and the program itself tell torch.profiler
theirs = {
    "data": ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"],
    "forward": ["my forward"],
    "backward": ["my backward"],
    "update": ["Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad"],
}
events = sorted(timing._tracing.profiler.events(), key=lambda event: event.time_range.start)


def lengths(names):
    return [[event.cpu_time_total for event in events if event.name == name] for name in names]


print(
    json.dumps(
        {
            "operators": {
                name: [ours[name], averages[name].self_cpu_time_total / 1e6, calls[name], averages[name].count]
                for name in ours
            },
            "all": [
                sum(ours.values()),
                sum(one.self_cpu_time_total for key, one in averages.items() if key in ours) / 1e6,
            ],
            "missing": [
                key
                for key, one in averages.items()
                if key not in ours
                and not (one.is_user_annotation or key.startswith(("[", OURS)))
                and one.self_cpu_time_total > 0
            ],
            "parts": {
                part: [
                    [getattr(step, part) for step in traced],
                    [sum(times) / 1e6 for times in zip(*lengths(names))],
                ]
                for part, names in theirs.items()
            },
        }
    )
)
