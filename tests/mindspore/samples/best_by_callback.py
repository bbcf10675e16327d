"""A callback that evaluates after each step and keeps the best weights."""

import mindspore as ms
from _shared import folder, model, small_data, small_net

where = folder()


class Best(ms.Callback):
    def __init__(self, trained, data):
        super().__init__()
        self.trained = trained
        self.data = data
        self.best = 0.2

    def step_end(self, run_context):
        told = run_context.original_args()
        result = self.trained.eval(self.data, dataset_sink_mode=False)
        if result["accuracy"] > self.best:
            self.best = result["accuracy"]
            ms.save_checkpoint(told.train_network, str(where / f"{self.best}.ckpt"))
            print("saved at accuracy", self.best)


trained = model(small_net(), metrics={"accuracy"})
trained.train(2, small_data(), callbacks=Best(trained, small_data(2)), dataset_sink_mode=False)
