"""A first look at the weights of a checkpoint after a training."""

import mindspore
from _shared import folder, model, small_data, small_net

net = small_net()
model(net).train(1, small_data(), dataset_sink_mode=False)
path = str(folder() / "net.ckpt")
mindspore.save_checkpoint(net, path)
for name, parameter in mindspore.load_checkpoint(path).items():
    value = parameter.asnumpy()
    print(name, value.shape, value.min(), value.max())
