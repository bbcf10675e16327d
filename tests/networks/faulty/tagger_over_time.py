"""fault: softmax_over_batch_dim

log_softmax over the positions of a sequence.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)
T = 10
x = torch.randn(400, T, 8)
y = (x[:, :, 0] > 0).long() + (x[:, :, 1] > 0).long()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 32, batch_first=True)
        self.out = nn.Linear(32, 3)

    def forward(self, s):
        h = self.out(self.rnn(s)[0])
        return F.log_softmax(h, dim=1)


net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(150):
    i = torch.randint(0, 400, (40,))
    loss = F.nll_loss(net(x[i]).reshape(-1, 3), y[i].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
