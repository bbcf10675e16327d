"""Looking again at a bad step: a copy of the process runs the user's own code once more, under full observation."""
