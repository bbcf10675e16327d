"""A learning rate of one's own that warms up, inside an optimizer."""

import mindspore as ms
from _shared import small_data, small_net
from mindspore import _checkparam as check
from mindspore import nn, ops
from mindspore.nn.learning_rate_schedule import LearningRateSchedule


class WarmUp(LearningRateSchedule):
    def __init__(self, learning_rate, warmup_steps):
        super().__init__()
        if not isinstance(learning_rate, float):
            raise TypeError("the rate must be a float")
        check.check_non_negative_float(learning_rate, "learning_rate", self.cls_name)
        check.check_positive_int(warmup_steps, "warmup_steps", self.cls_name)
        self.rate = learning_rate
        self.steps = warmup_steps
        self.minimum = ops.Minimum()
        self.cast = ops.Cast()

    def construct(self, global_step):
        share = self.cast(self.minimum(global_step, self.steps), ms.float32) / self.steps
        return self.rate * share


net = small_net()
net.set_train()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
optimizer = nn.Momentum(net.trainable_params(), WarmUp(0.1, 4), 0.9)
step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
for x, y in small_data().create_tuple_iterator(num_epochs=1):
    print(optimizer.get_lr().asnumpy(), step(x, y).asnumpy())
