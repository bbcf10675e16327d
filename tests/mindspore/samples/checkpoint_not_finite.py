"""NaN and Inf among the weights of a checkpoint."""

import mindspore
import numpy as np
from _shared import folder, small_net
from mindspore import Tensor

net = small_net()
value = net[2].weight.asnumpy().copy()
value[0, 0], value[1, 1] = np.nan, np.inf
net[2].weight.set_data(Tensor(value))
path = str(folder() / "net.ckpt")
mindspore.save_checkpoint(net, path)
for name, parameter in mindspore.load_checkpoint(path).items():
    value = parameter.asnumpy()
    print(name, int(np.isnan(value).sum()), int(np.isinf(value).sum()))
