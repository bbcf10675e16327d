"""Three ways to build a training with a loss scale."""

import mindspore as ms
from mindspore import nn

net = nn.Dense(1, 1)
loss = nn.MSELoss()
optimizer = nn.Adam(net.trainable_params(), learning_rate=0.01)
manager = ms.FixedLossScaleManager(drop_overflow_update=False)
print(type(ms.Model(net, loss, optimizer, loss_scale_manager=manager)).__name__, manager.get_loss_scale())
net.to_float(ms.float16)
loss.to_float(ms.float32)
joined = nn.WithLossCell(net, loss)
print(type(ms.Model(joined, optimizer=optimizer)).__name__)
sense = nn.FixedLossScaleUpdateCell(1)
step = nn.TrainOneStepWithLossScaleCell(joined, optimizer=optimizer, scale_sense=sense)
print(type(ms.Model(step)).__name__, sense.get_loss_scale())
