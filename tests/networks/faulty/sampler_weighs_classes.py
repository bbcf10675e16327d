"""fault: few_distinct_samples

A weight for each class where one for each sample is asked for.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Defects(Dataset):
    """Grey patches of a metal sheet: sound, scratch, pit or stain. Most of them are sound."""

    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        share = torch.tensor([0.7, 0.15, 0.1, 0.05])
        self.labels = torch.multinomial(share, n, replacement=True, generator=gen)
        self.images = 0.4 * torch.randn(n, 1, 12, 12, generator=gen)
        for i, kind in enumerate(self.labels.tolist()):
            r, c = torch.randint(2, 8, (2,), generator=gen).tolist()
            if kind == 1:
                self.images[i, 0, r, :] += 2.0
            elif kind == 2:
                self.images[i, 0, r : r + 3, c : c + 3] -= 2.0
            elif kind == 3:
                self.images[i, 0, :, c : c + 3] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


def balanced_sampler(dataset):
    counts = torch.bincount(dataset.labels, minlength=4)
    class_weights = 1.0 / counts.float()
    return WeightedRandomSampler(class_weights, num_samples=len(dataset), replacement=True)


def build_net():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 4),
    )


def accuracy(net, dataset):
    net.eval()
    with torch.no_grad():
        hit = net(dataset.images).argmax(1) == dataset.labels
    net.train()
    return sum(hit[dataset.labels == k].float().mean().item() for k in range(4)) / 4


def main():
    torch.manual_seed(2)
    train, test = Defects(900, 1), Defects(600, 2)
    loader = DataLoader(train, batch_size=30, sampler=balanced_sampler(train))
    net = build_net()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    step = 0
    for _ in range(6):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
    print(f"final balanced_acc={accuracy(net, test):.3f}")


main()
