"""A distributed training that was started as a plain script."""

from mindspore.communication import get_group_size, get_rank

print(get_rank(), get_group_size())
