"""fault: output_not_used

The decoder attends to its own input.
"""

import torch
from torch import nn

torch.manual_seed(17)
SYMBOLS, START, LENGTH, DIM = 12, 0, 8, 32


class Reverser(nn.Module):
    """Sequence to sequence: writes the symbols of the source backwards."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, DIM)
        self.position = nn.Parameter(0.1 * torch.randn(LENGTH, DIM))
        enc = nn.TransformerEncoderLayer(DIM, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        dec = nn.TransformerDecoderLayer(DIM, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(enc, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, 2)
        self.logits = nn.Linear(DIM, SYMBOLS)

    def forward(self, source, target_in):
        src = self.embed(source) + self.position
        tgt = self.embed(target_in) + self.position
        causal = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.encoder(src)
        out = self.decoder(tgt, tgt, tgt_mask=causal, memory_mask=causal)
        return self.logits(out)


def sentences(n):
    source = torch.randint(1, SYMBOLS, (n, LENGTH))
    target = source.flip(1)
    target_in = torch.cat([torch.full((n, 1), START), target[:, :-1]], dim=1)
    return source, target_in, target


net = Reverser()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, betas=(0.9, 0.98))
warm = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=20)
for step in range(250):
    source, target_in, target = sentences(48)
    logits = net(source, target_in)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    warm.step()
    print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    source, target_in, target = sentences(300)
    acc = (net(source, target_in).argmax(-1) == target).float().mean()
print(f"final acc={acc.item():.3f}")
