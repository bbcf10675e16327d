"""Frameworks as the rest of Tensight sees them: the contract, the table of adapters, one folder per framework."""
