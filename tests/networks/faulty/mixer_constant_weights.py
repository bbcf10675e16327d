"""fault: constant_init_symmetry
Every weight of the mixer starts at the same number.
"""

import torch
from torch import nn

torch.manual_seed(8)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens1, self.tokens2 = nn.Linear(6, 12), nn.Linear(12, 6)
        self.channels1, self.channels2 = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 4)
        for parameter in self.parameters():
            nn.init.constant_(parameter, 0.05)

    def forward(self, x):
        x = x + self.tokens2(nn.functional.gelu(self.tokens1(x.transpose(1, 2)))).transpose(1, 2)
        x = x + self.channels2(nn.functional.gelu(self.channels1(x)))
        return self.head(x.mean(1))


net = Mixer()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
centres = torch.randn(4, 6, 8)
for step in range(120):
    y = torch.randint(0, 4, (32,))
    loss = nn.functional.cross_entropy(net(centres[y] + torch.randn(32, 6, 8)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
