"""A diffusion model evaluated with averaged weights, which are taken out again."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(2)


class Denoiser(nn.Module):
    def __init__(self, dim=2, width=96):
        super().__init__()
        self.time = nn.Embedding(50, width)
        self.inp = nn.Linear(dim, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, dim)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.time(t))
        h = h + F.silu(self.mid(h))
        return self.out(h)


class Trainer:
    """A small diffusion trainer with an exponential moving average of the weights."""

    def __init__(self, model, data, decay=0.995):
        self.model, self.data, self.decay = model, data, decay
        self.ema = copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
        self.alpha = torch.cumprod(1 - torch.linspace(1e-3, 0.12, 50), 0)

    def loss(self, x):
        t = torch.randint(0, 50, (len(x),))
        a = self.alpha[t][:, None]
        noise = torch.randn_like(x)
        return F.mse_loss(self.model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)

    @torch.no_grad()
    def update_ema(self):
        for e, p in zip(self.ema.parameters(), self.model.parameters()):
            e.lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def evaluate(self):
        # the averaged weights score better
        kept = copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(self.ema.state_dict())
        score = self.loss(self.data[:512]).item()
        self.model.load_state_dict(kept)
        return score

    def fit(self, steps, every=15):
        for step in range(steps):
            x = self.data[torch.randint(0, len(self.data), (256,))]
            loss = self.loss(x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.update_ema()
            print(f"step {step} loss {loss.item():.4f}")
            if step % every == every - 1:
                print(f"eval {self.evaluate():.4f}")
        return loss.item()


corner = torch.tensor([[2.0, 2.0], [-2.0, 2.0], [2.0, -2.0]])
data = corner[torch.randint(0, 3, (4096,))] + 0.1 * torch.randn(4096, 2)
trainer = Trainer(Denoiser(), data)
start = trainer.model.mid.weight.detach().clone()
last = trainer.fit(240)
moved = (trainer.model.mid.weight - start).norm().item()
print(f"final loss={last:.4f} moved={moved:.4f}")
