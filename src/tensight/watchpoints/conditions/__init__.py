"""The conditions, one module per family."""
