"""Deep clustering whose centres start at different codes."""

import torch
import torch.nn.functional as F
from torch import nn

CLUSTERS, DIM, CODE = 5, 30, 6


def make_data(n, generator):
    centre = 2.5 * torch.randn(CLUSTERS, DIM, generator=generator)
    label = torch.randint(0, CLUSTERS, (n,), generator=generator)
    return centre[label] + torch.randn(n, DIM, generator=generator), label


class DEC(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 64), nn.ReLU(), nn.Linear(64, DIM))
        self.centres = nn.Parameter(torch.zeros(CLUSTERS, CODE))

    def assign(self, code):
        q = 1.0 / (1.0 + (code.unsqueeze(1) - self.centres).square().sum(-1))
        return q / q.sum(dim=1, keepdim=True)

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), self.assign(code)


def sharpen(q):
    weight = q.square() / q.sum(0)
    return (weight / weight.sum(1, keepdim=True)).detach()


def purity(net, x, label):
    with torch.no_grad():
        guess = net(x)[1].argmax(1)
    return sum(label[guess == k].bincount().max().item() for k in range(CLUSTERS) if (guess == k).any()) / len(x)


def pretrain(net, x, optimizer):
    for _ in range(60):
        optimizer.zero_grad()
        F.mse_loss(net.decoder(net.encoder(x)), x).backward()
        optimizer.step()


def main():
    torch.manual_seed(14)
    x, label = make_data(600, torch.Generator().manual_seed(15))
    net = DEC()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    pretrain(net, x, optimizer)
    with torch.no_grad():
        net.centres.copy_(net.encoder(x[: CLUSTERS * 40].view(CLUSTERS, 40, DIM)[:, 0]))
    for step in range(120):
        index = torch.randint(0, len(x), (100,))
        rebuilt, q = net(x[index])
        cluster = F.kl_div(q.log(), sharpen(q), reduction="batchmean")
        loss = 0.1 * F.mse_loss(rebuilt, x[index]) + cluster
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} cluster {cluster.item():.4f}")
    print(f"final loss={loss.item():.4f} purity={purity(net, x, label):.3f}")


main()
