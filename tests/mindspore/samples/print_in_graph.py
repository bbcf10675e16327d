"""Tensors printed from inside a graph."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Shown(nn.Cell):
    def __init__(self):
        super().__init__()
        self.print = ops.Print()

    def construct(self, x, y):
        self.print("x and y:", x, y)
        return x


ms.set_context(mode=ms.GRAPH_MODE)
Shown()(Tensor(np.ones([2, 1]).astype(np.int32)), Tensor(np.ones([2, 2]).astype(np.int32)))
ms.set_context(mode=ms.PYNATIVE_MODE)
