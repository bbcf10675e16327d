import torch
from torch import nn

logits = torch.randn(4, 3, requires_grad=True)
labels = torch.tensor([1, 2, 3, 1])
loss = nn.functional.cross_entropy(logits, labels)
