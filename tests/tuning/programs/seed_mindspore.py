"""A training for MindInsight's mindoptimizer: values by HyperConfig; the result is in the summary and nowhere else."""

import mindspore as ms
import numpy as np
from mindinsight.optimizer import HyperConfig
from mindspore import nn
from mindspore.dataset import NumpySlicesDataset

hyper_config = HyperConfig()
params = hyper_config.params
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_seed(1)
random = np.random.default_rng(0)
x = random.normal(size=(256, 4)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int32)


def data():
    return NumpySlicesDataset((x, y), shuffle=False).batch(params.batch_size, drop_remainder=True)


network = nn.SequentialCell(nn.Dense(4, 16), nn.ReLU(), nn.Dense(16, 2))
optimizer = nn.Momentum(network.trainable_params(), params.learning_rate, 0.9)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = ms.Model(network, loss, optimizer, metrics={"Accuracy": nn.Accuracy()})
collector = ms.SummaryCollector(summary_dir=hyper_config.summary_dir, collect_freq=1)
model.train(2, data(), callbacks=[collector], dataset_sink_mode=False)
model.eval(data(), callbacks=[collector], dataset_sink_mode=False)
