"""Watchpoints: conditions on tensors, and the hits they give."""
