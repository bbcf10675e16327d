"""What an adapter may be able to do: the list that the adapter suite tests and the published table shows.

An adapter that cannot do one of these says so, with the reason, in its `cannot` table. The suite then checks that the
reason is there and published, so nothing is skipped silently.
"""

from __future__ import annotations

# capability → what it means, in one sentence
CAPABILITIES: dict[str, str] = {
    "forward": "Outputs of modules are observed, in order of execution.",
    "output_gradients": "Gradients of module outputs are observed.",
    "gradients": "Gradients of parameters are observed as the optimizer sees them.",
    "weights": "Weights are observed after each update, with their change by it.",
    "loss": "The loss is reported as a number, once per backward pass.",
    "loss_events": "What is known of prediction and target of a loss module is reported.",
    "functional_losses": "What is known of prediction and target of a loss function is reported.",
    "steps": "Each optimizer step is reported.",
    "updates_without_optimizer": "Weights changed by hand after a backward pass end a step.",
    "accumulation": "Backward passes that are accumulated before one update are told apart.",
    "several_models": "Several models and optimizers are found and told apart.",
    "evaluation": "Evaluation inside a training is told apart from it.",
    "inference": "A script that never trains is watched.",
    "frozen": "Frozen parameters are told apart from trained ones.",
    "buffers": "Running statistics and other buffers are told apart from parameters.",
    "tied_weights": "A parameter used in two places is observed once.",
    "nested_outputs": "Tensors inside tuples, lists and dicts are found.",
    "dataclass_outputs": "Tensors inside dataclasses that a module returns are found.",
    "repeated_calls": "A module called twice in a step has two calls.",
    "functional_activations": "Activation functions that are called as functions are observed like modules.",
    "user_hooks": "Hooks the user has set are called as before.",
    "module_level": "At level module the inputs of modules and the gradients of inputs are observed.",
    "op_level": "At level op each operator is observed.",
    "loaders": "Batches that a loader hands out are reported.",
    "schedulers": "Learning-rate schedulers are found.",
    "scalers": "Loss scaling is found; gradients are reported unscaled.",
    "clipping": "Gradient clipping is reported.",
    "compiled": "The inside of compiled code is watched.",
}
