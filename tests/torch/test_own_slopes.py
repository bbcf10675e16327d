"""Functions with a backward of their own: forward and backward are compared, and nothing is called again."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from .conftest import Watch

CALLS: list[str] = []


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        CALLS.append("forward")
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        CALLS.append("backward")
        (x,) = ctx.saved_tensors
        return -grad * torch.sigmoid(x)


class Right(Wrong):
    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, levels: int) -> torch.Tensor:
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return -grad, None


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return -grad


class Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / x.norm(dim=1, keepdim=True)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return -grad


def told(watch: Watch, function: Any, *more: Any) -> list[dict]:
    sink = watch()
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
    weights = torch.randn(64, 16, generator=torch.Generator().manual_seed(2))
    (function.apply(x * 1.0, *more) * weights).sum().backward()
    assert sink.failures == []
    return sink.kinds("own_slope")


def test_a_backward_that_is_not_the_slope_is_told(watch: Watch) -> None:
    CALLS.clear()
    (found,) = told(watch, Wrong)
    assert found["function"] == "Wrong"
    assert found["differs"] > 1.5
    assert found["opposite"] > 0.9
    assert CALLS == ["forward", "backward"]  # nothing of the program was called again


def test_the_right_slope_differs_by_next_to_nothing(watch: Watch) -> None:
    (found,) = told(watch, Right)
    assert found["differs"] < 0.02
    assert found["opposite"] == 0.0


@pytest.mark.parametrize(("function", "more"), [(Rounded, (1,)), (Rounded, (7,)), (Reversed, ()), (Normed, ())])
def test_nothing_is_told_where_another_backward_is_meant_or_cannot_be_compared(
    watch: Watch, function: Any, more: tuple
) -> None:
    assert told(watch, function, *more) == []


class Linear(torch.autograd.Function):
    """y = x @ w.T + b; `kind` is what its backward does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, kind: str) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.kind = kind
        return (x @ w.sign().T if kind == "binary" else x @ w.T) + b

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        shape, x, grad = x.shape, x.flatten(0, 1), grad.flatten(0, 1)
        to_x = grad @ w.T if ctx.kind == "not turned" else grad @ w
        to_w = x.T @ grad if ctx.kind == "turned" else grad.T @ x
        if ctx.kind == "sign":
            to_w = -to_w
        if ctx.kind == "thinned":  # only the larger half goes on, and twice of it
            to_w = 2 * to_w * (to_w.abs() > to_w.abs().median())
        return to_x.reshape(shape), to_w, grad.sum(0), None


class Feedback(torch.autograd.Function):
    """Errors go back through fixed random weights, as some do on purpose."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, back)
        return x @ w.T

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, back = ctx.saved_tensors
        return grad @ back, grad.flatten(0, 1).T @ x.flatten(0, 1), None


def products(watch: Watch, function: Any, *more: Any) -> list[dict]:
    sink = watch()
    x = torch.randn(4, 16, 12).requires_grad_()
    w = torch.randn(12, 12).requires_grad_()
    (function.apply(x * 1.0, w, *more) * torch.randn(4, 16, 12)).sum().backward()
    assert sink.failures == []
    return sink.kinds("own_slope")


@pytest.mark.parametrize(("kind", "argument", "opposite"), [("not turned", 0, 0.3), ("turned", 1, 0.2), ("sign", 1, 1)])
def test_a_product_with_a_wrong_gradient_is_told(watch: Watch, kind: str, argument: int, opposite: float) -> None:
    (found,) = products(watch, Linear, torch.zeros(12).requires_grad_(), kind)
    assert (found["function"], found["argument"]) == ("Linear", argument)
    assert found["differs"] > 0.9
    assert found["opposite"] >= opposite


@pytest.mark.parametrize("kind", ["right", "binary", "thinned"])
def test_a_product_with_its_own_gradient_or_another_on_purpose_is_not_told(watch: Watch, kind: str) -> None:
    assert products(watch, Linear, torch.zeros(12).requires_grad_(), kind) == []


def test_errors_that_go_back_through_weights_of_their_own_are_not_told(watch: Watch) -> None:
    assert products(watch, Feedback, torch.randn(12, 12)) == []


def test_apply_is_as_before_when_nobody_watches_any_more(watch: Watch) -> None:
    assert "own_slopes" not in torch.autograd.Function.apply.__func__.__code__.co_filename
    watch()
    assert "own_slopes" in torch.autograd.Function.apply.__func__.__code__.co_filename
    assert torch.equal(Right.apply(torch.ones(3)), torch.ones(3) * torch.sigmoid(torch.ones(3)))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile does it itself
def test_a_compiled_network_may_hold_one(watch: Watch) -> None:
    sink = watch()
    layer = torch.nn.Linear(16, 16)
    compiled = torch.compile(lambda x: Right.apply(layer(x)), backend="eager", fullgraph=True)
    compiled(torch.ones(32, 16)).sum().backward()
    assert sink.failures == []
