"""Weights of a checkpoint, printed one by one."""

import mindspore
from _shared import folder, small_net

path = str(folder() / "net.ckpt")
mindspore.save_checkpoint(small_net(), path)
for name, parameter in mindspore.load_checkpoint(path).items():
    print(name, parameter.asnumpy())
