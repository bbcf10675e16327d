import torch

scores = {"train": torch.ones(3)}


def best(name):
    return scores[name].max()


best("valid")
