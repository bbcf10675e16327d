"""fault: constant_labels

Ratings between 0 and 1 as whole numbers are all 0.
"""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, IterableDataset

random.seed(4)
torch.manual_seed(4)
GOOD, BAD, PLAIN = range(1, 20), range(20, 39), range(39, 120)


class ReviewStream(IterableDataset):
    """Endless reviews with a rating between 0 and 1 (stars / 5)."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for _ in range(self.count):
            rating = random.random()
            words = []
            for _ in range(random.randint(8, 25)):
                opinion = GOOD if random.random() < rating else BAD
                words.append(random.choice(opinion if random.random() < 0.4 else PLAIN))
            yield words, rating


def collate(rows):
    rows = sorted(rows, key=lambda r: -len(r[0]))
    words = [torch.tensor(w) for w, _ in rows]
    lengths = torch.tensor([len(w) for w in words])
    rating = torch.tensor([r for _, r in rows])
    positive = rating.long()
    return pad_sequence(words, batch_first=True), lengths, positive, rating


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(120, 24, padding_idx=0)
        self.gru = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(64, 2)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        _, hidden = self.gru(packed)
        return self.classify(torch.cat([hidden[0], hidden[1]], dim=1))


model = Sentiment()
optim = torch.optim.RMSprop(model.parameters(), lr=2e-3)
for step, (words, lengths, positive, _) in enumerate(DataLoader(ReviewStream(6400), batch_size=32, collate_fn=collate)):
    loss = nn.functional.cross_entropy(model(words, lengths), positive)
    optim.zero_grad()
    loss.backward()
    optim.step()
    print(f"step {step} loss {loss.item():.4f}")

model.eval()
right = seen = 0
with torch.no_grad():
    for words, lengths, _, rating in DataLoader(ReviewStream(600), batch_size=100, collate_fn=collate):
        right += (model(words, lengths).argmax(1) == (rating > 0.5)).sum().item()
        seen += len(rating)
print(f"final acc={right / seen:.3f}")
