"""A MindSpore training in PyNative mode."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_seed(0)
network = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
loss_function = nn.CrossEntropyLoss()
optimizer = nn.SGD(network.trainable_params(), 0.1)


def forward(x, y):
    return loss_function(network(x), y)


gradient = ms.value_and_grad(forward, None, optimizer.parameters)
random = np.random.default_rng(0)
rows = [(random.normal(size=8).astype(np.float32), np.int32(index % 4)) for index in range(640)]
for x, y in ds.GeneratorDataset(rows, ["x", "y"], shuffle=False).batch(16).create_tuple_iterator():
    loss, gradients = gradient(x, y)
    optimizer(gradients)
