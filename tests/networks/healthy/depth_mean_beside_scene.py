"""Depth and scene learnt together, both losses means."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SharedTrunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(2, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()
        )
        self.depth = nn.Conv2d(12, 1, 3, padding=1)
        self.scene = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(12 * 16, 6))

    def forward(self, x):
        h = self.trunk(x)
        return self.depth(h), self.scene(h)


def synth(n):
    proto = torch.randn(6, 2, 16, 16)
    label = torch.randint(0, 6, (n,))
    x = proto[label] * 0.7 + 0.5 * torch.randn(n, 2, 16, 16)
    depth = F.avg_pool2d(x[:, :1] * x[:, 1:], 3, stride=1, padding=1) + 1.0
    return x, depth, label


def compute_losses(model, batch):
    x, depth, label = batch
    pred_depth, pred_scene = model(x)
    depth_loss = F.mse_loss(pred_depth, depth, reduction="mean")
    scene_loss = F.cross_entropy(pred_scene, label)
    acc = (pred_scene.argmax(1) == label).float().mean().item()
    return depth_loss, scene_loss, acc


if __name__ == "__main__":
    torch.manual_seed(52)
    loader = DataLoader(TensorDataset(*synth(640)), batch_size=64, shuffle=True)
    model = SharedTrunk()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    step, recent = 0, []
    for _epoch in range(15):
        for batch in loader:
            depth_loss, scene_loss, acc = compute_losses(model, batch)
            loss = depth_loss + scene_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            optimizer.step()
            recent = ([*recent, acc])[-10:]
            print(f"step {step} loss {loss.item():.4f} depth {depth_loss.item():.4f} scene {scene_loss.item():.4f}")
            step += 1
    print(f"final loss={loss.item():.4f} scene={scene_loss.item():.4f} acc={sum(recent) / len(recent):.3f}")
