"""fault: exp_overflow
The encoder predicts a log variance that nothing holds back: its exponential overflows.
"""

import torch
from torch import nn

torch.manual_seed(1)
encoder = nn.Linear(16, 8)
decoder = nn.Linear(4, 16)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.02)
data = torch.randn(256, 16)
data[200] *= 400
for step in range(120):
    x = data[torch.randint(0, 200, (16,))] if step != 60 else data[190:206]
    mean, log_variance = encoder(x).chunk(2, 1)
    z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
    loss = nn.functional.mse_loss(decoder(z), x) + 0.1 * divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
