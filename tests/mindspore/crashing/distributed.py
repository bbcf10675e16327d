"""A distributed training that was started as a plain script."""

from mindspore.communication import init

init()
