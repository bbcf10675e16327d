"""The kit's callbacks inside other people's trainers: Lightning, Transformers, Accelerate, MindSpore's Model.

Each module imports its trainer, so import the one you use: `from tensight.integrations.lightning import KitCallback`.
"""
