"""An LSTM language model whose state is carried from batch to batch and detached between them."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(4)
VOCABULARY, WIDTH, LENGTH, BATCH = 20, 32, 12, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, state):
        x, state = self.lstm(self.embedding(ids), state)
        return self.decoder(x), state


table = torch.randint(0, VOCABULARY, (VOCABULARY, VOCABULARY))
stream = torch.empty(BATCH, 4000, dtype=torch.long)
stream[:, :2] = torch.randint(0, VOCABULARY, (BATCH, 2))
noise = torch.rand(BATCH, 4000) < 0.1
random = torch.randint(0, VOCABULARY, (BATCH, 4000))
for t in range(2, 4000):
    stream[:, t] = torch.where(noise[:, t], random[:, t], table[stream[:, t - 1], stream[:, t - 2]])

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
state, at = None, 0
for step in range(STEPS):
    if at + LENGTH + 1 >= stream.shape[1]:
        state, at = None, 0
    ids, target = stream[:, at : at + LENGTH], stream[:, at + 1 : at + LENGTH + 1]
    at += LENGTH
    if state is not None:
        state = tuple(s.detach() for s in state)
    logits, state = model(ids, state)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), target)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
