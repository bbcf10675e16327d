"""A layer that is given another width than it takes."""

import numpy as np
from mindspore import Tensor, nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.Dense(8, 10)
        self.head = nn.Dense(20, 5)

    def construct(self, x):
        return self.head(self.body(x))


Net()(Tensor(np.ones((4, 8), np.float32)))
