"""Which weights of two checkpoints are the same."""

import mindspore
import numpy as np
from _shared import folder, model, small_data, small_net

net = small_net()
net[0].weight.requires_grad = False
where = folder()
mindspore.save_checkpoint(net, str(where / "one.ckpt"))
model(net).train(1, small_data(), dataset_sink_mode=False)
mindspore.save_checkpoint(net, str(where / "two.ckpt"))
one = mindspore.load_checkpoint(str(where / "one.ckpt"))
two = mindspore.load_checkpoint(str(where / "two.ckpt"))
same = [name for name in one if np.array_equal(one[name].asnumpy(), two[name].asnumpy())]
for name in same:
    print("same value:", name)
print("all:", len(one), "same:", len(same))
