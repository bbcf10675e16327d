"""What is captured, when and how deep: the step clock, the budget, and the recorder that adapters report to."""
