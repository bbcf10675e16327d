import torch

prediction = torch.randn(8, 3)
target = torch.randn(8, 4)
loss = ((prediction - target) ** 2).mean()
