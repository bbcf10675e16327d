"""Stands in for MindInsight in a trial, where it is not installed: only the values of a search."""
