"""fault: ctc_on_logits

CTC on raw scores.
"""

import functools
import operator
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "-0123456789"  # 0 is the blank
WIDTH = 8


def draw_line(digits, glyphs, rng):
    """A strip of columns: each digit takes 3 to 5 columns, then a gap of 1 or 2."""
    columns = []
    for d in digits:
        columns += [glyphs[d]] * rng.randint(3, 5)
        columns += [torch.zeros(WIDTH)] * rng.randint(1, 2)
    strip = torch.stack(columns)
    return strip + 0.15 * torch.randn_like(strip)


def collate(samples):
    strips, texts = zip(*samples)
    lengths = torch.tensor([len(s) for s in strips])
    text_lengths = torch.tensor([len(t) for t in texts])
    return (
        nn.utils.rnn.pad_sequence(strips, batch_first=True),
        lengths,
        torch.tensor(functools.reduce(operator.iadd, texts, [])),
        text_lengths,
    )


class LineReader(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.front = nn.Conv1d(WIDTH, 24, 3, padding=1)
        self.rnn = nn.GRU(24, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(ALPHABET))

    def forward(self, strips):
        x = torch.relu(self.front(strips.transpose(1, 2))).transpose(1, 2)
        x, _ = self.rnn(x)
        return self.head(x)


def ctc(logits, lengths, texts, text_lengths):
    scores = logits.transpose(0, 1)  # time first, as CTC wants it
    return F.ctc_loss(scores, texts, lengths, text_lengths, blank=0, zero_infinity=True)


def best_path(logits, lengths):
    lines = []
    for row, n in zip(logits.argmax(-1).tolist(), lengths.tolist()):
        kept = [c for i, c in enumerate(row[:n]) if c != 0 and (i == 0 or row[i - 1] != c)]
        lines.append(kept)
    return lines


def main():
    torch.manual_seed(33)
    rng = random.Random(34)
    glyphs = [None] + [torch.randn(WIDTH) for _ in range(10)]
    texts = [[rng.randint(1, 10) for _ in range(rng.randint(3, 6))] for _ in range(320)]
    data = [(draw_line(t, glyphs, rng), t) for t in texts]
    model = LineReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    step = 0
    for _epoch in range(12):
        rng.shuffle(data)
        for k in range(0, len(data), 32):
            strips, lengths, flat, text_lengths = collate(data[k : k + 32])
            loss = ctc(model(strips), lengths, flat, text_lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
    strips, lengths, _, _ = collate(data[:100])
    with torch.no_grad():
        read = best_path(model(strips), lengths)
    print(f"final loss={loss.item():.4f} lines_right={sum(r == t for r, (_, t) in zip(read, data)) / 100:.2f}")


main()
