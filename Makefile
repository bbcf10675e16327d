# Every target does its own set-up in .venv; see CONTRIBUTING.md.
.PHONY: demo test test-full coverage check setup web screenshots

setup:
	@scripts/setup

demo:
	@scripts/demo

test:
	@scripts/test

test-full:
	@scripts/test --full

coverage:
	@scripts/coverage core
	@scripts/coverage

check:
	@scripts/check

web:
	@scripts/web

screenshots: setup
	@.venv/bin/python scripts/screenshots.py docs/_static/screens
