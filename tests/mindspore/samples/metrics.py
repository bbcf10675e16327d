"""Five metrics of an evaluation."""

from _shared import model, small_data, small_net
from mindspore import nn

wanted = {
    "accuracy": nn.Accuracy(),
    "loss": nn.Loss(),
    "precision": nn.Precision(),
    "recall": nn.Recall(),
    "f1_score": nn.F1(),
}
print(model(small_net(), metrics=wanted).eval(small_data(), dataset_sink_mode=False))
