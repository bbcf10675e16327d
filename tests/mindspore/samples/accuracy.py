"""Accuracy by hand."""

import numpy as np
from mindspore import Tensor
from mindspore.nn import Accuracy

metric = Accuracy()
metric.clear()
metric.update(Tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]])), Tensor(np.array([1, 0, 1])))
print("accuracy:", metric.eval())
