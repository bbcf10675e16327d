"""Two runs or two checkpoints against each other, of the same or of different frameworks."""
