"""Programs that run when they are imported: they are not collected."""

collect_ignore_glob = ["samples/*", "crashing/*"]
