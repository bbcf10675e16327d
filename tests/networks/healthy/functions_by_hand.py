"""Functions with a backward of their own, as they are meant: exact, straight through, reversed, and softer."""

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
        return grad * (s + x * s * (1 - s))


class Eighths(torch.autograd.Function):
    """Rounded to eighths; the gradient passes straight through."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class SoftClamp(torch.autograd.Function):
    """Clamped to -1 and 1, with the slope of tanh, which leads back from outside."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - torch.tanh(x) ** 2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(12, 48), nn.Linear(48, 48)
        self.head, self.domain = nn.Linear(48, 1), nn.Linear(48, 2)

    def forward(self, x):
        h = Eighths.apply(SwishFn.apply(self.one(x)))
        h = SoftClamp.apply(self.two(h))
        return self.head(h).squeeze(1), self.domain(Reversed.apply(h, 0.1))


x = torch.randn(3000, 12)
y = x[:, 0] * x[:, 1] + x[:, 2].abs()
where = (x[:, 3] > 0).long()
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(250):
    i = torch.randint(0, 3000, (128,))
    value, domain = net(x[i])
    loss = nn.functional.smooth_l1_loss(value, y[i]) + 0.1 * nn.functional.cross_entropy(domain, where[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.5f}")
print(f"final loss={loss.item():.5f}")
