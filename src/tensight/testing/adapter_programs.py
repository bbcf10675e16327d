"""The tiny programs that the adapter suite runs: what a framework must write down to be held to the contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tensight.frameworks.adapter import Adapter, Array

Arrays = dict[str, Array]


@dataclass
class Outcome:
    """What a program did, by its own account. Everything is a copy."""

    losses: list[float]
    weights: Arrays  # at the end, by parameter name
    inputs: list[Array] = field(default_factory=list)  # what each step was fed
    gradients: list[Arrays] = field(default_factory=list)  # per update, as the optimizer was given them, unscaled
    before: list[Arrays] = field(default_factory=list)  # weights before each update
    after: list[Arrays] = field(default_factory=list)  # and after it
    random: bytes = b""  # state of the random generators at the end
    printed: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)  # what the user's own hooks wrote down
    rates: list[float] = field(default_factory=list)  # learning rate of each update
    held: list[Any] = field(default_factory=list)  # what must live until the adapter is detached
    refs: list[Callable[[], Any]] = field(default_factory=list)  # weak references to model and optimizer


class Programs(ABC):
    """Programs by framework. Each makes its model anew, trains it for `steps` steps and says what it did.

    The model of all of them: `first`, a linear layer from 4 to 8 features; `act`, an activation module; `second`, a
    linear layer from 8 to 2; batches of 8 rows, targets of shape 8x2, a squared loss by the framework's loss module.
    Programs marked with a capability need not be written by a framework that lacks it.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("first.weight", "first.bias", "second.weight", "second.bias")
    BUFFERS: ClassVar[tuple[str, ...]]  # running statistics in `train_with_buffers`

    @abstractmethod
    def adapter(self) -> Adapter:
        """A new adapter."""

    @abstractmethod
    def fingerprint(self) -> object:
        """Whatever of the framework an adapter may replace, so that two can be compared."""

    @abstractmethod
    def tensors(self, values: Array) -> Iterable[tuple[Any, Array]]:
        """`values` as a tensor of every dtype and of a strided layout, each with what NumPy must see of it."""

    def recover(self) -> None:
        """Bring the framework to rest after a program was stopped in its midst, where it does not do so itself."""
        return

    @abstractmethod
    def train(self, steps: int) -> Outcome:
        """The plain loop; every field of `Outcome` but `hooks` is filled in."""

    @abstractmethod
    def train_to_nan(self, steps: int) -> Outcome:
        """From step 1 on `second` gives NaN, out of finite inputs."""

    def train_two_models(self, steps: int) -> Outcome:
        """Two models with an optimizer each, updated one after the other in every step."""
        raise NotImplementedError

    def train_and_evaluate(self, steps: int) -> Outcome:
        """After each step the model is called for evaluation."""
        raise NotImplementedError

    def infer(self, steps: int) -> Outcome:
        """The model is called `steps` times and never trained."""
        raise NotImplementedError

    def train_frozen(self, steps: int) -> Outcome:
        """The parameters of `first` are frozen; the optimizer holds those of `second`."""
        raise NotImplementedError

    def train_with_buffers(self, steps: int) -> Outcome:
        """A batch norm stands between `first` and `act`."""
        raise NotImplementedError

    def train_tied(self, steps: int) -> Outcome:
        """`first` and `second` are square, without bias, and share their weight."""
        raise NotImplementedError

    def train_nested(self, steps: int) -> Outcome:
        """A module `pair` returns (tensor, {'mask': tensor})."""
        raise NotImplementedError

    def train_dataclass(self, steps: int) -> Outcome:
        """A module `pair` returns a dataclass with the fields value and mask."""
        raise NotImplementedError

    def train_repeated(self, steps: int) -> Outcome:
        """`first` is square and called twice in every forward pass."""
        raise NotImplementedError

    def train_accumulating(self, steps: int) -> Outcome:
        """Two backward passes for every update; `losses` has both."""
        raise NotImplementedError

    def train_with_hook(self, steps: int) -> Outcome:
        """The user has a forward and a backward hook on `second`, which write into `hooks`."""
        raise NotImplementedError

    def train_functional(self, steps: int) -> Outcome:
        """In place of `act` the functions relu (after `first`) and sigmoid (after `second`) are called."""
        raise NotImplementedError

    def train_by_hand(self, steps: int) -> Outcome:
        """Weights are assigned by the program itself, without an optimizer."""
        raise NotImplementedError

    def train_functional_loss(self, steps: int) -> Outcome:
        """The loss is a function of the framework."""
        raise NotImplementedError

    def train_from_loader(self, steps: int) -> Outcome:
        """Batches of 8 come from the framework's loader."""
        raise NotImplementedError

    def train_scheduled(self, steps: int) -> Outcome:
        """The learning rate is another one in every step; `rates` has them."""
        raise NotImplementedError

    def train_scaled(self, steps: int) -> Outcome:
        """The loss is scaled for the backward pass by the framework's scaler."""
        raise NotImplementedError

    def train_overflowing(self, steps: int) -> Outcome:
        """The first gradients overflow, and the scaler leaves out that update."""
        raise NotImplementedError

    def train_clipped(self, steps: int) -> Outcome:
        """Gradients are clipped by the framework's function."""
        raise NotImplementedError

    def train_compiled(self, steps: int) -> Outcome:
        """The model runs compiled."""
        raise NotImplementedError

    NEEDS: ClassVar[dict[str, str]] = {
        "train": "",
        "train_to_nan": "",
        "train_two_models": "several_models",
        "train_and_evaluate": "evaluation",
        "infer": "inference",
        "train_frozen": "frozen",
        "train_with_buffers": "buffers",
        "train_tied": "tied_weights",
        "train_nested": "nested_outputs",
        "train_dataclass": "dataclass_outputs",
        "train_repeated": "repeated_calls",
        "train_accumulating": "accumulation",
        "train_with_hook": "user_hooks",
        "train_functional": "functional_activations",
        "train_by_hand": "updates_without_optimizer",
        "train_functional_loss": "functional_losses",
        "train_from_loader": "loaders",
        "train_scheduled": "",
        "train_scaled": "scalers",
        "train_overflowing": "scalers",
        "train_clipped": "clipping",
        "train_compiled": "compiled",
    }  # program → the capability without which it need not be written

    @classmethod
    def names(cls) -> list[str]:
        return list(cls.NEEDS)

    @classmethod
    def needs(cls, program: str) -> str:
        return cls.NEEDS[program]


__all__ = ["Outcome", "Programs"]
