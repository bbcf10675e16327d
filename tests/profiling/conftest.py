"""The programs here are run, not imported."""

collect_ignore_glob = ["programs/*", "held_out/*"]
