"""An operator that is given numbers of the wrong format."""

import numpy as np
from mindspore import Tensor, ops

table = Tensor(np.ones((4, 3), np.float32))
ops.gather(table, Tensor(np.array([0.5, 1.0], np.float32)), 0)
