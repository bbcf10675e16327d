"""What attention looks at: the future, the padding, everything; told in the first steps.

Three ways of attending are seen: `scaled_dot_product_attention`, `nn.MultiheadAttention`, and a softmax over scores
that are as many as there are positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.attention_keys import key_node, tokens_behind
from tensight.frameworks.torch.pooled import is_pooled
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source
from tensight.records.event import Value

FIRST = 6  # steps that are looked at
FEWEST = 4  # positions; fewer are no sequence
_MOST_OF_A_STEP = 8
_MOST_ROWS = 64
_OPEN = -1e4  # scores are shut by adding less than this
_is_compiling = torch.compiler.is_compiling


class Attention:
    """Watches attention. `tokens` answers the whole numbers that the network was fed last."""

    def __init__(self, watching: Watching, patches: Patches, tokens: Callable[[], list[torch.Tensor]]) -> None:
        self.watching = watching
        self._tokens = tokens
        self._step = -1
        self._told = 0
        self._over_first: list[tuple[Any, dict[str, Value], Source | None]] = []  # until a loss shows what for
        self._inside = False  # of nn.MultiheadAttention, which calls the others
        self.drops: Callable[[float, str], None] | None = None  # told when attention drops weights at random
        patches.wrap(F, "scaled_dot_product_attention", self._around_product)
        patches.wrap(F, "multi_head_attention_forward", self._around_heads)

    # the two functions

    def _around_product(self, original: Any) -> Any:
        watching = self.watching
        called = watching.probe("attention", self._product)
        dropped = watching.probe("dropout", self._dropped)

        def scaled_dot_product_attention(*args, **kwargs):
            if watching.observing and not _is_compiling() and self._is_time() and not self._inside:
                called(*args, **kwargs) if not kwargs else called(*_plain(args, kwargs))
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            if p and watching.active and not _is_compiling():
                dropped(p)  # whatever the mode of the module: it is the caller's to ask
            return original(*args, **kwargs)

        return scaled_dot_product_attention

    def _dropped(self, p: float) -> None:
        if self.drops is not None:
            self.drops(p, "scaled_dot_product_attention")

    def _product(
        self, query: Any, key: Any, value: Any, mask: Any = None, dropout: Any = 0.0, causal: Any = False, *_: Any
    ) -> None:
        if type(query) not in PLAIN or query.dim() < 3 or self.watching.foreign():
            return
        rows, columns = query.shape[-2], key.shape[-2]
        values: dict[str, Value] = {"function": "scaled_dot_product_attention"}
        if type(mask) in PLAIN:
            values |= _of_mask(mask, keep=True)
            values |= self._padding(_columns(mask, columns, keep=True))
        values["future"] = not causal and (mask is None or bool(values.get("future", True)))
        self._tell(values, rows, columns, keys=key.grad_fn)

    def _around_heads(self, original: Any) -> Any:
        watching = self.watching
        called = watching.probe("attention", self._heads)

        def multi_head_attention_forward(query, key, value, *args, **kwargs):
            looks = watching.observing and not _is_compiling() and self._is_time()
            if looks:
                called(query, key, kwargs)
            before, self._inside = self._inside, self._inside or looks
            try:
                return original(query, key, value, *args, **kwargs)
            finally:
                self._inside = before

        return multi_head_attention_forward

    def _heads(self, query: torch.Tensor, key: torch.Tensor, kwargs: dict[str, Any]) -> None:
        """`nn.MultiheadAttention` hands on (length, batch, width), and masks by name."""
        if type(query) not in PLAIN or query.dim() < 2 or self.watching.foreign():
            return
        mask, padding = kwargs.get("attn_mask"), kwargs.get("key_padding_mask")
        values: dict[str, Value] = {"function": "MultiheadAttention"}
        if type(mask) in PLAIN:
            values |= _of_mask(mask, keep=False)
        if type(padding) in PLAIN:
            values |= _binary(padding)
            values |= self._padding(_columns(padding, key.shape[0], keep=False))
        causal = bool(kwargs.get("is_causal")) and mask is None
        values["future"] = not causal and (mask is None or bool(values.get("future", True)))
        self._tell(values, query.shape[0], key.shape[0], keys=key.grad_fn)

    # a softmax of the user's own

    def made(self, result: torch.Tensor, function: str, dim: int | None, source: Source | None) -> None:
        """An activation function has returned."""
        if dim in (0, -result.dim()) and self.watching.observing and not self._inside and self._is_time():
            self._over_rows(result, function, source)
        if function != "softmax" or result.dim() < 3 or self._inside or not self._is_time():
            return
        rows, columns = result.shape[-2:]
        if not self.watching.observing or columns < FEWEST or dim not in (-1, result.dim() - 1):
            return
        if type(result) not in PLAIN:
            return
        with torch.no_grad():
            weights = result.detach().reshape(-1, rows, columns)[:_MOST_ROWS]
            values: dict[str, Value] = {"function": "softmax"}
            if rows == columns:
                values["future"] = bool((weights.triu(1) > 0).any())
                values["past"] = bool((weights.tril(-1) > 0).any())
            open_ = result.detach().reshape(result.shape[0], -1, columns).amax(1) > 0
            values |= self._padding(open_)
        self._tell(values, rows, columns, source, key_node(result))

    def _over_rows(self, result: torch.Tensor, function: str, source: Source | None) -> None:
        """Weights that add up to 1 over the first dimension: which may be the samples, that is for others to judge.

        What they are for is seen when the loss is known.
        """
        size = result.shape[0] if result.dim() > 1 else 0
        square = result.dim() == 2 and result.shape[1] == size  # each with each: both ways are usual
        if size < FEWEST or result.numel() == size or square or result.grad_fn is None:
            return
        self._told += 1
        watching = self.watching
        entry = watching.scopes[-1].entry if watching.scopes else None
        shape = "x".join(str(length) for length in result.shape)
        values: dict[str, Value] = {"function": function, "size": size, "shape": shape}
        values["module"] = "" if entry is None else entry.path
        self._over_first.append((result.grad_fn, values, source or user_source()))

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        weights, self._over_first = self._over_first, []
        for made, values, source in weights:
            pooled = is_pooled(root, made, int(str(values["size"])))
            if pooled is None and self.watching.sink.step == self._step:
                self._over_first.append((made, values, source))  # there may be another loss in this step
            elif pooled is False:  # one set, weighed whole, is no batch
                self.watching.sink.event("over_rows", self.watching.network, values, source)

    # inside

    def _is_time(self) -> bool:
        step = self.watching.sink.step
        if step >= FIRST or self.watching.phase == "evaluation":
            return False
        if step != self._step:
            self._step, self._told = step, 0
            self._over_first.clear()
        return self._told < _MOST_OF_A_STEP

    def _padding(self, open_: torch.Tensor | None) -> dict[str, Value]:
        """Whether only padding is looked at: open positions all hold one token, shut ones hold many."""
        if open_ is None or not 0 < int(open_.sum()) < open_.numel():
            return {}
        # A sample without padding, all of it shut by the same large number, is looked at evenly: it shows nothing.
        partly = open_.any(-1) & ~open_.all(-1)
        for tokens in self._tokens():
            if tokens.shape != open_.shape or not bool(partly.any()):
                continue
            seen, hidden = tokens[partly][open_[partly]], tokens[partly][~open_[partly]]
            inverted = int(seen.min()) == int(seen.max()) and torch.unique(hidden).numel() > 2
            return {"only_padding": inverted, "token": int(seen[0])} if inverted else {"only_padding": False}
        return {}

    def _tell(
        self, values: dict[str, Value], rows: int, columns: int, source: Source | None = None, keys: Any = None
    ) -> None:
        if rows < FEWEST and "only_padding" not in values:
            return  # no sequence; whoever asks with one query may still look at padding
        self._told += 1
        watching = self.watching
        entry = watching.scopes[-1].entry if watching.scopes else None
        values |= {"rows": rows, "columns": columns, "module": "" if entry is None else entry.path}
        if rows != columns:
            values["future"] = None  # positions of two sequences: which lies ahead is not known
        tokens = self._tokens()
        if values.get("future") and len(tokens) > 1:
            values["keys_of"] = tokens_behind(keys, tokens)
        watching.sink.event("attention", watching.network, values, source or user_source())


def _plain(args: tuple, kwargs: dict) -> list[Any]:
    """Arguments in order."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    return [*args, *(kwargs.get(name, False if name == "is_causal" else None) for name in names[len(args) :])]


def _binary(mask: torch.Tensor) -> dict[str, Value]:
    """A mask of numbers that are 0 and 1 and nothing else: it is added to scores, and so shuts nothing."""
    if not mask.is_floating_point() or not mask.numel():
        return {}
    ones, zeros = int((mask == 1).sum()), int((mask == 0).sum())
    return {"binary": True} if ones and zeros and ones + zeros == mask.numel() else {}


def _of_mask(mask: torch.Tensor, *, keep: bool) -> dict[str, Value]:
    """`keep`: True means to look at a position; otherwise to leave it out."""
    with torch.no_grad():
        mask = mask.detach()
        found: dict[str, Value] = {"mask": str(mask.dtype).removeprefix("torch."), **_binary(mask)}
        if mask.dim() >= 2 and mask.shape[-1] == mask.shape[-2]:
            open_ = _open(mask, keep)
            found["future"] = bool(open_.triu(1).any())
            found["past"] = bool(open_.tril(-1).any())
        return found


def _open(mask: torch.Tensor, keep: bool) -> torch.Tensor:
    if mask.dtype is torch.bool:
        return mask if keep else ~mask
    return mask > _OPEN


def _columns(mask: torch.Tensor, columns: int, *, keep: bool) -> torch.Tensor | None:
    """Which positions each sample looks at; None when the mask is the same for all."""
    with torch.no_grad():
        mask = mask.detach()
        if mask.dim() == 2 and not keep:
            return _open(mask, keep) if mask.shape[1] == columns else None
        if mask.dim() < 3 or mask.shape[-1] != columns or mask.shape[0] < 2:
            return None
        return _open(mask, keep).reshape(mask.shape[0], -1, columns).any(1)
