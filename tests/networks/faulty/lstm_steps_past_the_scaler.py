"""fault: gradients_not_unscaled

The loss is scaled, and the optimizer steps by itself instead of through the scaler.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(6)


class Labeller(nn.Module):
    def __init__(self, vocab=24, dim=24, hidden=32, tags=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * hidden, 32)
        self.out = nn.Linear(32, tags)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        with torch.autocast("cpu", dtype=torch.float16):
            return self.out(F.relu(self.proj(h)))


def sample(n=32, t=12):
    ids = torch.randint(0, 24, (n, t))
    return ids, ids % 5


net = Labeller()
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.8)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(80):
    ids, tags = sample()
    logits = net(ids).float()
    loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
    opt.zero_grad()
    scaler.scale(loss).backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
