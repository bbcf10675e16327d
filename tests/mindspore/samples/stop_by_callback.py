"""A callback that ends the training after some time."""

import time

import mindspore as ms
from _shared import model, small_data, small_net


class Stop(ms.Callback):
    def __init__(self, minutes):
        super().__init__()
        self.limit = minutes * 60

    def begin(self, run_context):
        run_context.original_args().init_time = time.time()

    def step_end(self, run_context):
        told = run_context.original_args()
        if time.time() - told.init_time > self.limit:
            print("epoch", told.cur_epoch_num, "step", told.cur_step_num, "loss", told.net_outputs)
            run_context.request_stop()


model(small_net()).train(100, small_data(), callbacks=Stop(-1), dataset_sink_mode=False)
