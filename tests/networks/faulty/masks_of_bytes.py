"""fault: target_out_of_range

Segmentation with masks of 0 and 255, for a loss that wants 0 and 1.
"""

import torch
from torch import nn

torch.manual_seed(13)
N = 200
mask8 = torch.zeros(N, 1, 16, 16, dtype=torch.uint8)
for n in range(N):
    r, c = torch.randint(2, 9, (2,)).tolist()
    mask8[n, :, r : r + 5, c : c + 5] = 255
img = mask8.float() / 255 + 0.6 * torch.randn(N, 1, 16, 16)
target = mask8.float()

net = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 1)
)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
bce = nn.BCEWithLogitsLoss()
step = 0
for _ in range(8):
    order = torch.randperm(N)
    for k in range(0, N, 20):
        i = order[k : k + 20]
        loss = bce(net(img[i]), target[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
print(f"final loss={loss.item():.4f}")
