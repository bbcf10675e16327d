"""Something that happened inside a step, in order."""

from __future__ import annotations

import msgspec

from tensight.records.source import Source

Value = bool | int | float | str | None


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened inside a step.

    Kinds and their values:
      forward          part=network; training, grad, batch; input_requires_grad where it does
      backward         part=network; micro
      zero_grad        part=optimizer; set_to_none
      unscale, clip    part=optimizer or ''; norm, max_norm
      optimizer_step   part=optimizer; lr, and skipped=True when a scaler left it out
      scheduler_step   part=scheduler; lr, count: how often it was stepped, by its own account
      scale            part=scaler; scale, overflow
      still_scaled     part=optimizer; scale: gradients that it is given still hold the scale of the loss
      loss             part=loss name; what is known of prediction and target (see frameworks.adapter)
      labels           part=loss name; function and target alone, where nothing else of a compiled loss is seen
      number_in_loss   part=network; term, line: a summand made of slopes that were asked for without a graph
      terms            part=network; name → value of each summand of the loss, 'line of' name → where it is made
      scored           part=loss name; a loss without gradients: somebody measures
      batch            part=loader; index, and what is known of the batch
      mode             part=network; node, training
      attention        part=network; function, rows, columns, module; future, past, binary, only_padding
      over_rows        part=network; function, size, shape, module: a softmax inside it over the first dimension
      casts, cast_loss number formats left and come back to in a step; whole numbers that a format cannot hold
      alike            part=network; module, name, what, count, updates: units that stay copies of each other
      held             part=network; share, smallest, largest, min, max, module: what clamp holds at its limits
      grown            part=network; function, given, largest, module: what exp makes huge, though still finite
      workers          part=loader; generator, same, workers: workers that draw the same random numbers
      same_order       part=loader; epochs, epoch, since: epochs that were shuffled alike
      weights_loaded   part=network: before the first step, on a rank of several
      cut, permuted, stranger, graph_alive, loaded, fed_by   lines of code that rules about wiring and data point to
      agreement        part=Part of kind 'agreement'; update, step, sums, late: what ranks should hold alike
      replicas_differ  part=network; kind, name, step, others, ranks, agreed, words: what they do not
      hooks_kept       part=network; module, owner, since, alive: hooks that one line adds in every step
      reseeded         part=network; generator, seed, since, steps: seeded alike in every step, and drawn from after it
      fixed_part       part=network; module, training, inner, count, kinds, size: a frozen part that gives the target
      divided_by_zero  before the first call of a network: zeros, size, places, column, nan, constant, shape
      compile          part=network; a graph was captured: graphs, breaks, recompiles (so far), frame, again, reason
    """

    kind: str
    order: int = 0
    part: str = ""
    values: dict[str, Value] = {}
    source: Source | None = None
