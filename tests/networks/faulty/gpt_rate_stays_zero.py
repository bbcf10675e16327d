"""fault: lr_is_zero
The warm-up divides integers: the rate is zero until the warm-up is over, and the run ends before that.
"""

import torch
from torch import nn

torch.manual_seed(5)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 24)
        self.block = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True)
        self.head = nn.Linear(24, 16)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.block(self.embedding(ids), src_mask=mask, is_causal=True))


net = Model()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.0)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step // 1000)
for step in range(120):
    start = torch.randint(0, 16, (8, 1))
    ids = (start + torch.arange(9)) % 16
    loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"step {step} loss {loss.item():.6f}")
