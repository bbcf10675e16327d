"""One seed for MindSpore, NumPy and data sets."""

import mindspore as ms
import numpy as np

ms.set_seed(1)
np.random.seed(1)
print(ms.get_seed(), np.random.rand(2))
print(ms.Tensor(ms.numpy.randn(2)).asnumpy().shape)
