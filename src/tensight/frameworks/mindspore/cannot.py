"""What the MindSpore adapter cannot do, and why. Imports nothing: the published table is made from it."""

from __future__ import annotations

CANNOT: dict[str, str] = {
    "functional_losses": (
        "loss functions of mindspore.ops are compiled when they are called under jit, so they cannot be replaced; "
        "the loss itself is still reported, as is everything about loss cells"
    ),
    "op_level": "operators of the backward pass are only partly visible to MindSpore's dispatch mode",
    "schedulers": "a schedule is a cell inside the optimizer or a list of numbers; the learning rate is reported",
    "clipping": "clipping gives new gradients and leaves no trace; the optimizer's gradients are those after it",
    "compiled": "graph mode and jit run outside Python; loss, parameters, updates and steps are seen from outside",
}
