"""Callbacks: the protocol, who drives them, and those that come with the kit."""
