"""Two shapes that do not fit each other."""

import numpy as np
from mindspore import Tensor

prediction = Tensor(np.ones((8, 3), np.float32))
target = Tensor(np.ones((8, 4), np.float32))
loss = ((prediction - target) ** 2).mean()
print(loss)  # where the error comes out, made a line above
