"""A lambda in the middle of a call, which the graph compiler cannot read."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

ms.set_context(mode=ms.GRAPH_MODE)
net = nn.Dense(8, 10)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
gradient(Tensor(np.ones((2, 8), np.float32)))
