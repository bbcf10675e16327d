"""The same inputs for two frameworks, made with NumPy."""

import numpy as np
from mindspore import Tensor

np.random.seed(3)
given = Tensor(np.random.randint(0, 10, size=(3, 5, 10)).astype(np.float32))
print(given.shape, given.asnumpy().sum())
