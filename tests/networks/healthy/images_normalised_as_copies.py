"""Images normalised when they are fetched."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

MEAN, STD = 0.5, 0.25


class ImageSet(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        img = self.images[idx]
        img = (img - MEAN) / STD
        return img, self.labels[idx]


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mlp = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.norm2 = nn.LayerNorm(dim)
        self.channel_mlp = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))

    def forward(self, x):
        x = x + self.token_mlp(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mlp(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, classes, dim=32, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 2, stride=2)
        self.blocks = nn.Sequential(*[MixerBlock(16, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


def load_images(n, protos, gen):
    y = torch.randint(0, len(protos), (n,), generator=gen)
    x = protos[y] + 0.2 * torch.randn(n, 3, 8, 8, generator=gen)
    return x.clamp(0, 1), y


def train_one_epoch(model, loader, optimizer, step):
    model.train()
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
    return step, loss.item()


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    return (model((x - MEAN) / STD).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(14)
    gen = torch.Generator().manual_seed(15)
    protos = 0.5 + 0.1 * torch.randn(8, 3, 8, 8, generator=gen)
    x_train, y_train = load_images(640, protos, gen)
    x_val, y_val = load_images(200, protos, gen)
    loader = DataLoader(ImageSet(x_train, y_train), batch_size=32, shuffle=True)
    model = Mixer(classes=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(8):
        step, last = train_one_epoch(model, loader, optimizer, step)
        val = evaluate(model, x_val, y_val)
        print(f"epoch {epoch} val {val:.3f}")
    print(f"final loss={last:.4f} val={val:.3f}")
