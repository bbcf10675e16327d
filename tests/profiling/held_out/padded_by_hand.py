"""Sentences of different length for an LSTM; they are padded by hand."""

import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Sentences(Dataset):
    def __init__(self):
        lengths = torch.randint(20, 60, (4000,)).tolist()
        self.rows = [torch.randint(1, 500, (length,)) for length in lengths]

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        row = self.rows[index % len(self.rows)]
        return row, index % 4


def collate(samples):
    rows, labels = [row for row, _ in samples], torch.tensor([label for _, label in samples])
    if FAST:
        return pad_sequence(rows, batch_first=True), labels
    longest = max(len(row) for row in rows)
    padded = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        for j in range(len(row)):
            padded[i, j] = row[j]  # slow
    return padded, labels


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 48)
        self.lstm = nn.LSTM(48, 96, batch_first=True)
        self.head = nn.Linear(96, 4)

    def forward(self, tokens):
        out, _ = self.lstm(self.embed(tokens))
        return self.head(out.mean(1))


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for tokens, labels in DataLoader(Sentences(), batch_size=32, collate_fn=collate):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
