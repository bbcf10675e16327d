"""A small translator: the encoder sees everything, the decoder only what came before; padding is shut and ignored."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(0)
VOCABULARY, LENGTH, PAD = 20, 12, 0


def batch(size=32):
    text = torch.randint(3, VOCABULARY, (size, LENGTH))
    lengths = torch.randint(6, LENGTH + 1, (size,))
    shut = torch.arange(LENGTH)[None] >= lengths[:, None]
    text[shut] = PAD
    answer = torch.cat([torch.ones(size, 1, dtype=torch.long), text.flip(1)], 1)
    return text, answer[:, :-1], answer[:, 1:]


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.out = nn.Linear(width, VOCABULARY)
        self.register_buffer("future", torch.triu(torch.ones(LENGTH, LENGTH), 1).bool())

    def forward(self, source, target):
        shut = source == PAD
        memory = self.encoder(self.embedding(source) + self.places, src_key_padding_mask=shut)
        hidden = self.decoder(
            self.embedding(target) + self.places,
            memory,
            tgt_mask=self.future,
            memory_key_padding_mask=shut,
        )
        return self.out(hidden)


model = Translator()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 40))
for _ in range(steps):
    source, given, wanted = batch()
    loss = nn.functional.cross_entropy(model(source, given).flatten(0, 1), wanted.flatten(), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
