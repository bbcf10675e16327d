"""All and trainable parameters of a module of PyTorch, beside MindSpore in one process."""

from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1)
        self.norm = nn.BatchNorm1d(1)


net = Net()
every = []
for name, parameter in net.named_parameters():
    every.append(parameter)
    print(name, tuple(parameter.shape), parameter.requires_grad)
for name, buffer in net.named_buffers():
    every.append(buffer)
    print(name, tuple(buffer.shape))
print(f"all: {len(every)}")
