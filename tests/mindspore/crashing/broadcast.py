"""Two shapes that do not fit each other."""

import numpy as np
from mindspore import Tensor

prediction = Tensor(np.ones((8, 3), np.float32))
target = Tensor(np.ones((8, 4), np.float32))
gap = prediction - target
loss = (gap * gap).mean()  # the error comes out here or below, wherever Python is by then
print(loss)
