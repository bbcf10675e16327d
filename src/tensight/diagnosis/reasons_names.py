"""The names of faults by which a value stops being finite, and what each means."""

from __future__ import annotations

NAMES = {
    "log_of_zero": "log of 0 is -inf; its slope there is infinite.",
    "log_of_negative": "log of a negative number is NaN.",
    "sqrt_zero_gradient": "The slope of a root or a norm at 0 is infinite: finite forward, NaN or inf backward.",
    "sqrt_of_negative": "The root of a negative number is NaN.",
    "division_by_zero": "A divisor is 0: a count, a norm, a standard deviation, a sum of weights.",
    "exp_overflow": "exp of more than the number format can hold.",
    "power_of_negative": "A negative number to a broken power is NaN.",
    "softmax_all_masked": "A softmax over scores that are all -inf: a row of a mask that leaves nothing over.",
    "softmax_of_inf": "A softmax over a score of inf.",
    "atan2_zero_gradient": "The slope of atan2 at the origin.",
    "inf_minus_inf": "An infinite value minus another one.",
    "inf_times_zero": "An infinite value times 0: a mask that multiplies in place of selecting.",
    "where_bad_branch": "torch.where drops a bad branch, and backward multiplies the slope of that branch by 0.",
    "fp16_overflow": "A result above 65504, the most that float16 holds (category precision).",
    "eps_underflows_in_half": "A small number that keeps a divisor from 0 is itself 0 in float16 (category precision).",
    "exploding_activation": "Values that grow from layer to layer or step to step until an operator overflows"
    " (category gradient-flow).",
    "nonfinite_weight": "A weight that an update, an assignment or a file made NaN or inf.",
    "nonfinite_initial_weights": "A weight that is NaN or inf before the first step.",
}
