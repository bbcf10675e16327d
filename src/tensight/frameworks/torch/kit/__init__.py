"""PyTorch's part of the training kit."""
