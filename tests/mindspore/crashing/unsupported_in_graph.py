"""Python that PyNative mode runs and the graph compiler does not."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.Dense(4, 4)

    def construct(self, x):
        try:
            y = self.body(x)
        except ValueError:
            y = x
        return y


ms.set_context(mode=ms.GRAPH_MODE)
Net()(Tensor(np.ones((2, 4), np.float32)))
