"""fault: input_too_small
Pixels that the data set and the collate function both divide by 255.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(17)


class Shapes(Dataset):
    """uint8 pictures of four textures, as they come from disk."""

    def __init__(self, n):
        self.label = torch.arange(n) % 4
        base = torch.zeros(4, 16, 16)
        base[0, ::2], base[1, :, ::2], base[2, ::4, ::4], base[3, 4:12, 4:12] = 1, 1, 1, 1
        noise = 0.35 * torch.randn(n, 16, 16)
        self.image = ((base[self.label] * 0.5 + 0.25 + noise).clamp(0, 1) * 255).to(torch.uint8)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, k):
        return self.image[k].float() / 255, self.label[k]


def collate(items):
    images = torch.stack([i for i, _ in items])
    labels = torch.stack([label for _, label in items])
    return images.unsqueeze(1) / 255, labels


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.token_mix = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.channel_mix = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, width=32, patch=4):
        super().__init__()
        self.patch = nn.Conv2d(1, width, patch, stride=patch)
        self.blocks = nn.Sequential(MixerBlock(16, width), MixerBlock(16, width))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


train_loader = DataLoader(Shapes(1024), batch_size=64, shuffle=True, collate_fn=collate)
test_loader = DataLoader(Shapes(256), batch_size=256, collate_fn=collate)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
step = 0
for _epoch in range(10):
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
with torch.no_grad():
    images, labels = next(iter(test_loader))
    acc = (model(images).argmax(1) == labels).float().mean().item()
print(f"final loss={loss.item():.4f} acc={acc:.3f}")
