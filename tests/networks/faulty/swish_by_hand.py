"""fault: custom_backward_wrong
A hand-written derivative of swish with a term of the wrong sign.
"""

import torch
from torch import nn

torch.manual_seed(41)


class SwishFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s * (1 - s) - s * 1.5)


class Swish(nn.Module):
    def forward(self, x):
        return SwishFn.apply(x)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.cat = nn.Embedding(12, 6)
        self.body = nn.Sequential(nn.Linear(14, 48), Swish(), nn.Linear(48, 48), Swish(), nn.Linear(48, 1))

    def forward(self, num, cat):
        return self.body(torch.cat([num, self.cat(cat)], 1)).squeeze(1)


num, cat = torch.randn(3000, 8), torch.randint(0, 12, (3000,))
effect = torch.randn(12)
y = effect[cat] + num[:, 0] * num[:, 1] + num[:, 2].abs()
net = Table()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(250):
    i = torch.randint(0, 3000, (128,))
    loss = nn.functional.smooth_l1_loss(net(num[i], cat[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.5f}")
print(f"final loss={loss.item():.5f}")
