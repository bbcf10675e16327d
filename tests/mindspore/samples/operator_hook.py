"""A hook that prints a gradient on its way."""

import mindspore
from mindspore import Tensor, ops


def show(gradient):
    print(gradient)


hook = ops.HookBackward(show)


def product(x, y):
    z = hook(x * y)
    return z * y


def backward(x, y):
    return mindspore.value_and_grad(product, grad_position=(0, 1))(x, y)


print(backward(Tensor(1, mindspore.float32), Tensor(2, mindspore.float32)))
