"""Sets our sums of a profile beside torch.profiler's own, and prints both."""

import json

import torch
from torch import nn
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
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 8, (4096,)))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
try:
    for x, y in DataLoader(data, batch_size=64):
        loss = loss_function(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
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
parts = ("data", "forward", "backward", "update")
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
                    sum(getattr(step, part) for step in traced),
                    averages[OURS + part].cpu_time_total / 1e6 if OURS + part in averages else 0.0,
                ]
                for part in parts
            },
        }
    )
)
