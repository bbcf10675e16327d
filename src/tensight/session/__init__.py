"""Composition in the training process: settings, the session, the user's program, the terminal."""
