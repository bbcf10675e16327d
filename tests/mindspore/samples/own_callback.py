"""A callback of one's own: all its moments."""

import mindspore as ms
from _shared import model, small_data, small_net


class Moments(ms.Callback):
    def begin(self, run_context):
        print("begin")

    def epoch_begin(self, run_context):
        print("epoch begins", run_context.original_args().cur_epoch_num)

    def epoch_end(self, run_context):
        print("epoch ends")

    def step_begin(self, run_context):
        print("step begins")

    def step_end(self, run_context):
        print("step ends", run_context.original_args().net_outputs)

    def end(self, run_context):
        print("end")


model(small_net()).train(1, small_data(), callbacks=Moments(), dataset_sink_mode=False)
