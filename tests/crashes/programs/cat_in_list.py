import torch

up, side = torch.ones(2, 4, 16), torch.ones(2, 4, 15)
joined = torch.cat([up, side], dim=1)
