"""A mistake in the script's own code."""

from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.Dense(8, 10)

    def construct(self, x):
        return self.body(x)


settings = {"rate": 0.1}
net = Net()
print(settings["rats"], net)
