"""fault: hooks_pile_up

A language model whose loop registers a hook that looks at the states, in every step anew.
"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 24)
        self.lstm = nn.LSTM(24, 32, batch_first=True)
        self.out = nn.Linear(32, 20)

    def forward(self, x):
        return self.out(self.lstm(self.emb(x))[0])


torch.manual_seed(4)
text = (torch.arange(3000) * 3 % 20 + (torch.rand(3000) < 0.1).long()) % 20
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
sizes = []
for step in range(80):
    model.lstm.register_forward_hook(lambda module, args, output: sizes.append(output[0].abs().mean().item()))
    rows = torch.stack([text[s : s + 25] for s in torch.randint(0, 2900, (16,)).tolist()])
    loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
