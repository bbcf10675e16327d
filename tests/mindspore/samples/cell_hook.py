"""A backward hook on a cell."""

import mindspore
import numpy as np
from mindspore import Tensor, nn


def show(cell, into, out):
    print("into:", into)
    print("out:", out)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()
        self.handle = self.relu.register_backward_hook(show)

    def construct(self, x):
        return self.relu(x + x)


print(mindspore.value_and_grad(Net(), grad_position=0)(Tensor(np.ones([1]).astype(np.float32))))
