"""MindSpore: PyNative mode in full, graph mode from outside."""
