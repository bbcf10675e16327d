"""What pytest must not collect: scripts that run when they are imported."""

collect_ignore_glob = ["src/tensight/cli/demos/*", "src/tensight/session/site/*", "tests/*/programs/*"]
