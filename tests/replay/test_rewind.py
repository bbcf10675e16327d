"""Rewind, each time in a process of its own: a copy looks again at the bad step, and the training does not notice."""

from __future__ import annotations

from pathlib import Path

from tests.replay import programs
from tests.replay.jobs import bare, rewound


def test_a_standing_copy_finds_the_operator_and_the_training_is_bitwise_unchanged(tmp_path):
    result = rewound(tmp_path, programs.PLAIN)
    (replay,) = result["replays"]
    assert (replay["status"], replay["strategy"], replay["step"]) == ("exact", "standing child", 6)
    assert (replay["operator"], replay["phase"]) == ("aten.sqrt", "backward")
    assert replay["source"]["code"] == "loss = torch.sqrt(d if step == 6 else d + 1.0).sum()"
    assert replay["then"][-1] == "every weight"
    assert (tmp_path / replay["tensors"]).is_file()
    assert result["output"] == bare(tmp_path, programs.PLAIN)


def test_a_copy_that_was_made_many_steps_before_runs_on_to_the_bad_step(tmp_path):
    (replay,) = rewound(tmp_path, programs.PLAIN, {"share": 1e-9})["replays"]
    assert (replay["status"], replay["step"], replay["operator"]) == ("exact", 6, "aten.sqrt")


def test_with_loader_workers_kept_state_and_batches_are_used(tmp_path):
    result = rewound(tmp_path, programs.WORKERS, {"share": 1e-9})
    (replay,) = result["replays"]
    assert (replay["status"], replay["strategy"]) == ("exact", "fork at the hit")
    assert (replay["operator"], replay["phase"]) == ("aten.log", "forward")
    assert replay["memory"] > 0
    assert result["output"] == bare(tmp_path, programs.WORKERS)


def test_a_fault_that_stays_away_after_a_fork_at_the_hit_is_read_from_the_graph(tmp_path):
    (replay,) = rewound(tmp_path, programs.COUNTER, {"share": 1e-9})["replays"]
    assert (replay["strategy"], replay["operator"], replay["step"]) == ("graph", "aten.log", 4)
    assert "run again and all its values were finite" in replay["reason"]


def test_the_copy_changes_no_file_and_no_read_position(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("".join(f"{number / 7}\n" for number in range(60)))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    result = rewound(tmp_path, programs.FILES, {"share": 1e-9}, DATA=str(data), LOG=str(tmp_path / "a" / "log"))
    plain = bare(tmp_path, programs.FILES, DATA=str(data), LOG=str(tmp_path / "b" / "log"))
    (replay,) = result["replays"]
    assert (replay["status"], replay["step"], replay["operator"]) == ("exact", 5, "aten.log")
    assert result["output"] == plain
    assert listing(tmp_path / "a") == listing(tmp_path / "b")
    for name in ("log", "log.all"):
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size if path.is_file() else 0) for path in folder.iterdir())


def test_threads_of_the_user_forbid_a_copy_and_the_graph_of_the_loss_is_read(tmp_path):
    (replay,) = rewound(tmp_path, programs.THREAD)["replays"]
    assert (replay["status"], replay["strategy"], replay["operator"]) == ("exact", "graph", "aten.log")
    assert "threads of its own (prefetch)" in replay["reason"]
    assert replay["facts"]["in.0.zero"] == 2


def test_gradients_that_are_bad_again_are_found_in_the_next_step(tmp_path):
    (replay,) = rewound(tmp_path, programs.THREAD_GRADIENTS)["replays"]
    assert (replay["status"], replay["strategy"], replay["step"]) == ("exact", "next step", 3)
    assert (replay["operator"], replay["phase"]) == ("aten.sqrt", "backward")
    assert replay["source"]["code"].startswith("loss = torch.sqrt(")


def test_what_nothing_can_show_is_said_to_be_not_possible(tmp_path):
    (replay,) = rewound(tmp_path, programs.THREAD_GRADIENT)["replays"]
    assert replay["status"] == "not possible"
    assert "threads of its own (prefetch)" in replay["reason"]


def test_memory_that_is_shared_forbids_a_copy_and_it_is_said(tmp_path):
    (replay,) = rewound(tmp_path, programs.SHARED)["replays"]
    assert replay["status"] == "not possible"
    assert "shared memory" in replay["reason"]


def test_a_copy_that_hangs_is_ended_and_the_training_goes_on(tmp_path):
    result = rewound(tmp_path, programs.HANGS, {"patience": 0.5})
    (replay,) = result["replays"]
    assert (result["exit"], result["steps"], replay["status"]) == (0, 4, "not possible")
    assert "was not done" in replay["reason"]


def test_a_fault_that_does_not_come_back_is_said_to_be_not_reproduced(tmp_path):
    (replay,) = rewound(tmp_path, programs.NOT_AGAIN)["replays"]
    assert replay["status"] == "not reproduced"
    assert "finite" in replay["reason"]


def test_a_script_that_ends_at_once_still_gets_its_answer_and_keeps_its_exit_code(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(programs.FAILS.replace("raise SystemExit(7)", "break"))
    (replay,) = rewound(tmp_path, script.read_text())["replays"]
    assert (replay["status"], replay["operator"]) == ("exact", "aten.log")


def test_a_hundred_replays_leave_no_process_descriptor_or_memory_behind(tmp_path):
    result = rewound(tmp_path, programs.MANY.replace("ROUNDS", "100"), {"most": 1000, "wait": True})
    assert [replay["status"] for replay in result["replays"]] == ["exact"] * 100
    assert result["resident"][99] - result["resident"][9] < 30 << 20
