"""Conformance suites and fakes, shipped so that strangers can hold their own parts to our contracts."""
