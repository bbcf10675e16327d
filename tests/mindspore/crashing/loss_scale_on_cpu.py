"""A loss-scale cell whose overflow check is made for other devices."""

import numpy as np
from mindspore import Tensor, nn

net = nn.Dense(1, 1)
joined = nn.WithLossCell(net, nn.MSELoss())
optimizer = nn.Adam(net.trainable_params(), 0.01)
step = nn.TrainOneStepWithLossScaleCell(joined, optimizer, nn.FixedLossScaleUpdateCell(1))
step.set_train()
step(Tensor(np.ones((4, 1), np.float32)), Tensor(np.ones((4, 1), np.float32)))
