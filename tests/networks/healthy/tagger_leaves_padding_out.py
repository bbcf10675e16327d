"""A tagger whose loss leaves out what follows the end of a sentence, by a mask of its own."""

import torch
from torch import nn

torch.manual_seed(29)
END, WORDS, TAGS, LENGTH = 0, 40, 6, 14
tag_of = torch.randint(1, TAGS, (WORDS,))
tag_of[END] = 0


def sentences(n):
    """Words and their tags; a tag is one further after a word of the first ten."""
    words = torch.randint(1, WORDS, (n, LENGTH))
    before = torch.cat([torch.full((n, 1), WORDS - 1), words[:, :-1]], 1)
    tags = (tag_of[words] - 1 + (before < 10).long()) % (TAGS - 1) + 1
    length = torch.randint(4, LENGTH, (n, 1))
    after = torch.arange(LENGTH)[None] >= length
    return words.masked_fill(after, END), tags.masked_fill(after, 0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 24)
        self.reads = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(64, TAGS)

    def forward(self, words):
        return self.tags(self.reads(self.words(words))[0])


net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
each = nn.CrossEntropyLoss(reduction="none")
for step in range(180):
    words, tags = sentences(32)
    terms = each(net(words).flatten(0, 1), tags.flatten())
    mask = (words != END).flatten()
    loss = terms[mask].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    words, tags = sentences(200)
    right = net(words).argmax(-1) == tags
print(f"final acc={right[words != END].float().mean().item():.3f}")
