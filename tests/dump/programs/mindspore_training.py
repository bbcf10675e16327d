"""A small MindSpore training, in the mode that the first argument names; `nan` spoils it from step 1 on."""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.act = nn.ReLU()
        self.head = nn.Dense(8, 3)

    def construct(self, x):
        return self.head(self.act(self.first(x)))


def main():
    graph = sys.argv[1] == "graph"
    mindspore.set_context(mode=mindspore.GRAPH_MODE if graph else mindspore.PYNATIVE_MODE)
    mindspore.set_seed(0)
    model = Net()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 4)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2], np.int32)
    kept = {}
    if graph:
        step = nn.TrainOneStepCell(nn.WithLossCell(model, loss), optimizer)
        step.set_train()
    else:
        gradient = mindspore.value_and_grad(lambda a, b: loss(model(a), b), None, optimizer.parameters)
        model.act.register_forward_hook(lambda cell, inputs, output: seen.append(output))
        seen = []
        head = [parameter.name for parameter in optimizer.parameters].index("head.weight")
    for number in range(3):
        fed = x.copy()
        if "nan" in sys.argv and number == 1:
            fed[0, 0] = np.nan
        if graph:
            value = step(Tensor(fed), Tensor(y))
        else:
            value, gradients = gradient(Tensor(fed), Tensor(y))
            optimizer(gradients)
            kept[f"act.{number}"] = seen[-1].asnumpy()
            kept[f"gradient.{number}"] = gradients[head].asnumpy()
        kept[f"weight.{number}"] = model.head.weight.asnumpy().copy()
        kept[f"loss.{number}"] = value.asnumpy()
    np.savez("kept.npz", **kept)


main()
