"""A hook on a tensor that changes its gradient."""

import mindspore
from mindspore import Tensor


def double(gradient):
    return gradient * 2


def product(x, y):
    z = x * y
    z.register_hook(double)
    return z * y


take = mindspore.value_and_grad(product, grad_position=(0, 1))
print(take(Tensor(1, mindspore.float32), Tensor(2, mindspore.float32)))
