import torch

samples = [torch.ones(3), torch.ones(3), torch.ones(4)]
batch = torch.stack(samples)
