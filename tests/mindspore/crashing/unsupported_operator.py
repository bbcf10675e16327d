"""An operator that this device has no kernel for."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

x = Tensor(np.ones((2, 2), np.float32)).astype(ms.bfloat16)
print(ops.matmul(x, x))
