"""Checkpoints and the loss by callbacks of a model."""

import mindspore as ms
from _shared import folder, model, small_data, small_net

where = folder()
keep = ms.ModelCheckpoint(prefix="net", directory=str(where))
model(small_net()).train(2, small_data(), callbacks=[keep, ms.LossMonitor()], dataset_sink_mode=False)
print(sorted(path.suffix for path in where.iterdir()))
