"""Which tensors a selector names."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.errors import SpecError
from tensight.watchpoints.selectors import Glob, Selector
from tests.watchpoints.records import tensor

TENSORS = {
    "weight": tensor(1, "weight", "encoder.0.attn", network="net"),
    "bias": tensor(2, "weight", "encoder.0.attn", "bias", network="net"),
    "frozen": tensor(3, "frozen", "embed", network="net"),
    "running": tensor(4, "buffer", "norm", "running_mean"),
    "gradient": tensor(5, "gradient", "encoder.0.attn"),
    "output": tensor(6, "output", "encoder.0", type="Linear"),
    "second": tensor(7, "output", "encoder.0", call=1, type="Linear"),
    "relu": tensor(8, "activation", "encoder.act", type="LeakyReLU"),
    "back": tensor(9, "output_gradient", "encoder.0"),
    "loss": tensor(10, "loss", "", "loss"),
    "sqrt": tensor(11, "operator", "head", op="aten.sqrt"),
    "input": tensor(12, "input", "", "input.0"),
    "root": tensor(13, "output", "", network="teacher"),
}


def selected(text: str) -> set[str]:
    selector = Selector.parse(text)
    return {name for name, info in TENSORS.items() if selector.selects(info)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("*", set(TENSORS)),
        ("weight:*", {"weight", "bias"}),
        ("weight", {"weight", "bias"}),
        ("parameter:*", {"weight", "bias", "frozen", "running"}),
        ("gradient:*", {"gradient"}),
        ("gradient:activation", {"back"}),
        ("gradient:activation:encoder", {"back"}),
        ("gradient:activation:decoder", set()),
        ("activation:*", {"relu"}),
        ("output:*", {"output", "second", "relu", "root"}),
        ("encoder", {"weight", "bias", "gradient", "output", "second", "relu", "back"}),
        ("encoder.*.weight", {"weight", "gradient"}),
        ("*.bias", {"bias"}),
        ("weight:encoder.0", {"weight", "bias"}),
        ("weight:enc", set()),
        ("output:encoder.0#1", {"second"}),
        ("output:encoder.?", {"output", "second"}),
        ("loss, input", {"loss", "input"}),
        ("operator:head", {"sqrt"}),
        ("operator[aten.sqrt]:*", {"sqrt"}),
        ("activation[relu|leaky_relu]:*", {"relu"}),
        ("activation[leakyrelu]", {"relu"}),
        ("output[linear]:*", {"output", "second"}),
        ("teacher/*", {"root"}),
        ("weight:net/encoder", {"weight", "bias"}),
        ("*:norm", {"running"}),
    ],
)
def test_a_selector_names_these_tensors(text, names):
    assert selected(text) == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty part"),
        ("weight:*,,loss", "empty part"),
        ("wieght:*", "did you mean 'weight'"),
        ("weight:", "write 'kind:glob'"),
        ("weight:a b", "write 'kind:glob'"),
        ("activation[]:*", "names no type"),
        ("weight:/x", "write 'network/glob'"),
        ("x" * 600, "at most 500 characters"),
        (",".join(["loss"] * 300), "at most 200 parts"),
    ],
)
def test_a_wrong_selector_is_refused_in_one_sentence(text, complaint):
    with pytest.raises(SpecError, match=complaint.replace("[", r"\[")) as refused:
        Selector.parse(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_condition_refuses_kinds_it_cannot_judge():
    with pytest.raises(SpecError, match="GV cannot be set on 'weight:\\*'"):
        Selector.parse("weight:*").require("GV", frozenset({"gradient"}))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(pattern=st.text("ab.*?", max_size=8), name=st.text("ab.", max_size=10))
def test_globs_match_as_file_names_do(pattern, name):
    assert Glob(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(pattern=st.text("ab.*?", min_size=1, max_size=8), name=st.text("ab.", max_size=10))
def test_a_scope_covers_all_below_it(pattern, name):
    parts = name.split(".")
    scopes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    expected = any(fnmatch.fnmatchcase(scope, pattern) for scope in scopes if scope or scope == name)
    assert Glob(pattern).covers(name) == expected


def test_hostile_patterns_end():
    assert not Glob("*a" * 240 + "b").covers("a" * 20_000)
    assert Glob("*?" * 240).covers("a" * 20_000)
