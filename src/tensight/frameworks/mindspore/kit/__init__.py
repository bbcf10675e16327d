"""MindSpore's part of the training kit."""
