"""Operators run one after the other, so that a stack can be trusted."""

import mindspore
from mindspore import Tensor, ops

mindspore.runtime.launch_blocking()
print(ops.add(Tensor([1.0, 2.0]), Tensor([3.0, 4.0])))
