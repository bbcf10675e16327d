"""A custom backward that gives the wrong number of gradients."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn


class Half(nn.Cell):
    def construct(self, x):
        return x / 2

    def bprop(self, x, out, gradient):
        return (undefined_name * gradient,)  # noqa: F821


net = Half()
ms.grad(net)(Tensor(np.ones((2, 2), np.float32)))
