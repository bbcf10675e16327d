"""As scripts for MindInsight's mindoptimizer are written: values by HyperConfig, the metric is printed."""

from mindinsight.optimizer import HyperConfig

hyper_config = HyperConfig()
params = hyper_config.params
assert hyper_config.summary_dir
accuracy = 1 - abs(params.learning_rate - 0.03) - abs(params.batch_size - 64) / 1000
print({"Accuracy": accuracy, "loss": 1 - accuracy})
