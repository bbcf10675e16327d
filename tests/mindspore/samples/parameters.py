"""All and trainable parameters of a cell."""

from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(1, 1, weight_init="normal")

    def construct(self, x):
        return self.fc(x)


net = Net()
every = list(net.get_parameters())
for parameter in every:
    print(parameter.name, parameter.data.shape)
print(f"all parameters: {len(every)}")
for parameter in net.trainable_params():
    print(parameter.name, parameter.data.shape)
print(f"trainable parameters: {len(net.trainable_params())}")
