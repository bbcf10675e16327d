"""Every parser of what strangers write, with good inputs to begin from."""

from __future__ import annotations

from tests.fuzz import checkpoint_parsers, dump_parsers, run_parsers, server_parsers, text_parsers
from tests.fuzz.trying import Parser

PARSERS: dict[str, Parser] = {
    parser.name: parser
    for family in (text_parsers, dump_parsers, checkpoint_parsers, run_parsers, server_parsers)
    for parser in family.PARSERS
}
