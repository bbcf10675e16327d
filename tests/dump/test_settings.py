"""The dump JSON, of r1.1 and of the newest version: what is accepted, and the sentence for what is not."""

from __future__ import annotations

import json

import pytest

from tensight.dump import settings
from tensight.errors import UsageError

R11 = {
    "common_dump_settings": {
        "dump_mode": 0,
        "path": "/absolute_path",
        "net_name": "ResNet50",
        "iteration": 0,
        "input_output": 0,
        "kernels": ["Default/Conv-op12"],
        "support_device": [0, 1, 2, 3, 4, 5, 6, 7],
    },
    "e2e_dump_settings": {"enable": True, "trans_flag": False},
}
NEWEST = {
    "common_dump_settings": {
        "op_debug_mode": 0,
        "dump_mode": 1,
        "path": "/absolute_path",
        "net_name": "ResNet50",
        "iteration": "0|5-8|100-120",
        "saved_data": "full",
        "statistic_category": ["max", "min", "avg", "count", "nan count", "md5", "l2norm"],
        "input_output": 2,
        "kernels": ["Default/Conv-op12", "conv", "name-regex(Gradients/.+)"],
        "support_device": [0],
        "overflow_number": 0,
        "initial_iteration": 3,
    },
    "e2e_dump_settings": {
        "enable": True,
        "trans_flag": True,
        "sample_mode": 1,
        "sample_num": 8,
        "stat_calc_mode": "host",
        "device_stat_precision_mode": "high",
        "save_kernel_args": False,
    },
}


def changed(base, block, **values):
    made = json.loads(json.dumps(base))
    made.setdefault(block, {}).update(values)
    return made


def test_the_configuration_of_the_first_version_is_read():
    found = settings.parse(R11)
    assert (found.net_name, found.inputs, found.outputs, found.asynchronous) == ("ResNet50", True, True, False)
    assert [step for step in range(5) if step in found.iterations] == [0]
    assert found.tensors
    assert not found.statistics


def test_the_configuration_of_the_newest_version_is_read():
    found = settings.parse(NEWEST)
    assert [step for step in range(200) if step in found.iterations] == [0, *range(5, 9), *range(100, 121)]
    assert (found.inputs, found.outputs, found.sample, found.initial_iteration) == (False, True, 8, 3)
    assert found.tensors
    assert found.statistics
    assert found.categories[-1] == "l2norm"
    assert found.kernels.match("Default/x/Conv2D-op1", "Conv2D")
    assert found.kernels.match("Gradients/Default/x/MatMul-op1", "MatMul")
    assert not found.kernels.match("Default/x/MatMul-op1", "MatMul")


def test_asynchronous_dumps_of_the_first_version_mean_every_iteration_by_zero():
    made = {
        "common_dump_settings": R11["common_dump_settings"],
        "async_dump_settings": {"enable": True, "op_debug_mode": 3},
    }
    found = settings.parse(made)
    assert found.asynchronous
    assert found.overflow_only
    assert 12345 in found.iterations


@pytest.mark.parametrize(
    ("block", "key", "value", "sentence"),
    [
        ("common_dump_settings", "dump_mode", 3, "common_dump_settings.dump_mode is 3: allowed is 0, 1, 2"),
        ("common_dump_settings", "dump_mode", "0", 'dump_mode is "0": allowed is 0, 1, 2'),
        ("common_dump_settings", "dump_mode", True, "dump_mode is true: allowed is 0, 1, 2"),
        ("common_dump_settings", "path", "here", 'path is "here": allowed is an absolute path'),
        ("common_dump_settings", "path", "", "path is empty: give an absolute path, or set MS_DIAGNOSTIC_DATA_PATH"),
        ("common_dump_settings", "path", 7, "path is 7: allowed is an absolute path"),
        ("common_dump_settings", "net_name", "../x", 'net_name is "../x": allowed is a name of letters'),
        ("common_dump_settings", "iteration", "5-3", 'iteration is "5-3": allowed is a number, or text such as'),
        ("common_dump_settings", "iteration", -1, "iteration is -1: allowed is a number"),
        ("common_dump_settings", "iteration", "0|x", 'iteration is "0|x"'),
        ("common_dump_settings", "iteration", [0], "iteration is [0]"),
        ("common_dump_settings", "input_output", 3, "input_output is 3: allowed is 0, 1, 2"),
        ("common_dump_settings", "kernels", "conv", 'kernels is "conv": allowed is a list of names'),
        ("common_dump_settings", "kernels", ["name-regex(()"], "kernels holds a pattern that cannot be read"),
        ("common_dump_settings", "support_device", [-1], "support_device is [-1]: allowed is a list of device numbers"),
        ("common_dump_settings", "saved_data", "all", 'saved_data is "all": allowed is "tensor", "statistic", "full"'),
        (
            "common_dump_settings",
            "statistic_category",
            ["mean"],
            'statistic_category is ["mean"]: allowed is a list of',
        ),
        ("common_dump_settings", "op_debug_mode", 5, "op_debug_mode is 5: allowed is 0, 1, 2, 3, 4"),
        ("common_dump_settings", "overflow_number", 2, "overflow_number is 2 and op_debug_mode is 0"),
        ("common_dump_settings", "kernel", [], 'common_dump_settings has the unknown key "kernel": known are'),
        ("e2e_dump_settings", "enable", 1, "e2e_dump_settings.enable is 1: allowed is true or false"),
        ("e2e_dump_settings", "enable", False, "enable is true in neither e2e_dump_settings nor async_dump_settings"),
        ("e2e_dump_settings", "sample_num", 0, "sample_num is 0: allowed is a whole number from 1 on"),
        ("e2e_dump_settings", "stat_calc_mode", "gpu", 'stat_calc_mode is "gpu": allowed is "host", "device"'),
        ("async_dump_settings", "enable", True, "are both true: set one to false"),
        ("async_dump_settings", "file_format", "bin", 'file_format is "bin" and the dump is synchronous'),
        ("async_dump_settings", "file_format", "txt", 'file_format is "txt": allowed is "npy", "bin"'),
        ("debug_settings", "enable", True, 'the file has the unknown key "debug_settings"'),
    ],
)
def test_each_wrong_key_value_or_combination_has_its_sentence(block, key, value, sentence, monkeypatch):
    monkeypatch.delenv("MS_DIAGNOSTIC_DATA_PATH", raising=False)
    with pytest.raises(UsageError) as refused:
        settings.parse(changed(R11, block, **{key: value}), where="dump.json")
    assert str(refused.value).startswith("dump.json: ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"dump_mode": 1, "kernels": []}, "dump_mode is 1 and kernels is empty"),
        ({"dump_mode": 2, "kernels": []}, "dump_mode is 2, which dumps targets, and there are none"),
        ({"op_debug_mode": 3, "saved_data": "statistic"}, 'op_debug_mode is 3 and saved_data is "statistic"'),
    ],
)
def test_what_is_right_alone_and_wrong_together_is_said(values, sentence):
    with pytest.raises(UsageError, match="dump") as refused:
        settings.parse(changed(R11, "common_dump_settings", **values))
    assert sentence in str(refused.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(UsageError) as refused:
        settings.parse(changed(R11, "common_dump_settings", dump_mode=9, input_output=9))
    assert "dump_mode is 9" in str(refused.value)
    assert "input_output is 9" in str(refused.value)


def test_an_empty_path_takes_the_place_for_diagnostics(monkeypatch):
    monkeypatch.setenv("MS_DIAGNOSTIC_DATA_PATH", "/diagnostics")
    found = settings.parse(changed(R11, "common_dump_settings", path=""))
    assert found.path.as_posix() == "/diagnostics/debug_dump"


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"common_dump_settings": 3}', "[" * 100_000])
def test_a_file_that_is_no_configuration_gets_a_sentence(tmp_path, text):
    file = tmp_path / "dump.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"dump\.json"):
        settings.load(file)


def test_a_pattern_that_cannot_be_read_is_not_called_missing_too(tmp_path):
    with pytest.raises(UsageError, match="holds a pattern that cannot be read") as raised:
        settings.parse({"common_dump_settings": {"path": "/x", "dump_mode": 1, "kernels": ["name-regex(()"]}})
    assert "is empty" not in str(raised.value)


def test_a_file_that_is_not_there_gets_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("TENSIGHT_DUMP_CONFIG", raising=False)
    monkeypatch.setenv("MINDSPORE_DUMP_CONFIG", str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match=r"none\.json cannot be read: No such file or directory$"):
        settings.from_environment()
