import torch

left, right, core = torch.ones(3, 6), torch.ones(3, 8), torch.ones(6, 7, 4)
score = torch.einsum("bi,bj,ijk->bk", left, right, core)
