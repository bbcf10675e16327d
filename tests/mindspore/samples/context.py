"""Context for one or several devices."""

import os

import mindspore as ms
from mindspore.communication import init

device = int(os.getenv("DEVICE_ID", "0"))
ranks = int(os.getenv("RANK_SIZE", "1"))
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_context(device_target="CPU", device_id=device)
if ranks > 1:
    ms.set_auto_parallel_context(device_num=ranks, parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
    init()
print(ms.get_context("mode") == ms.GRAPH_MODE, ms.get_context("device_target"))
ms.set_context(mode=ms.PYNATIVE_MODE)
