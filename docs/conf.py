"""How the documentation is built: `make check` builds it without warnings."""

project = "Tensight"
copyright = "The Tensight developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_title = "Tensight"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
