"""Scripts that the command line's tests run."""

HEALTHY = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
for step in range(30):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("step", step, loss.item().hex())
"""

NAN = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.rand(20, 8, 4) + 0.1
x[7, 3] = 0.0
for step in range(20):
    size = x[step].sum(dim=1, keepdim=True)
    loss = (model(x[step]) - torch.log(size)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("step", step, loss.item().hex())
"""

CRASH = HEALTHY + "model(torch.randn(3, 5))\n"

ENDLESS = HEALTHY.replace("range(30)", "range(10**9)")
