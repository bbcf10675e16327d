"""A loss-scale manager that a CPU does not offer."""

import mindspore as ms
from mindspore import nn

net = nn.Dense(1, 1)
optimizer = nn.Adam(net.trainable_params(), 0.01)
ms.Model(net, nn.MSELoss(), optimizer, loss_scale_manager=ms.DynamicLossScaleManager())
