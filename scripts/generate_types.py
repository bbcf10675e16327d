"""Writes web/src/types.ts, the page's types, from the server's answers and the records in them.

Run `python scripts/generate_types.py`; with --check it only says whether the file is fresh.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from msgspec import inspect

from tensight.control import commands
from tensight.server import answers

TARGET = Path(__file__).resolve().parents[1] / "web" / "src" / "types.ts"
HEAD = """// Generated from the Python records by scripts/generate_types.py. Do not edit.

/** A float: JSON has no NaN and no infinities, so they come as words. */
export type Num = number | "nan" | "inf" | "-inf";
/** An integer: beyond 2**53 it comes as a string of digits. */
export type Int = number | string;
"""


def name_of(kind: inspect.Type, named: dict[str, inspect.StructType]) -> str:
    """The TypeScript for a type; structs met on the way are added to `named`."""
    if isinstance(kind, inspect.Metadata):
        return name_of(kind.type, named)
    if isinstance(kind, inspect.StructType):
        named.setdefault(kind.cls.__name__, kind)
        return kind.cls.__name__
    if isinstance(kind, inspect.UnionType):
        if any(isinstance(one, inspect.FloatType) for one in kind.types):
            # Only values of tensors and settings are numbers of any kind; counts, steps and ids stay small.
            named_int = ["Int" if isinstance(one, inspect.IntType) else name_of(one, named) for one in kind.types]
            return " | ".join(dict.fromkeys(named_int))
        return " | ".join(dict.fromkeys(name_of(one, named) for one in kind.types))
    if isinstance(kind, inspect.LiteralType):
        return " | ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        inner = name_of(kind.item_type, named)
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if isinstance(kind, inspect.TupleType):
        return "[" + ", ".join(name_of(one, named) for one in kind.item_types) + "]"
    if isinstance(kind, inspect.DictType):
        return f"Record<string, {name_of(kind.value_type, named)}>"
    plain = {
        inspect.IntType: "number",
        inspect.FloatType: "Num",
        inspect.StrType: "string",
        inspect.BytesType: "string",
        inspect.BoolType: "boolean",
        inspect.NoneType: "null",
        inspect.AnyType: "unknown",
    }
    return plain[type(kind)]


def declare(kind: inspect.StructType, named: dict[str, inspect.StructType]) -> str:
    """An interface for a struct; fields that may be left out of the wire are optional."""
    doc = " ".join((kind.cls.__doc__ or "").split("\n\n")[0].split())
    lines = [f"/** {doc} */"] if doc and not doc.startswith(f"{kind.cls.__name__}(") else []
    lines.append(f"export interface {kind.cls.__name__} {{")
    config: Any = kind.cls.__struct_config__
    if config.tag is not None:
        lines.append(f'  {config.tag_field}: "{config.tag}";')
    for field in kind.fields:
        optional = "?" if config.omit_defaults and not field.required else ""
        lines.append(f"  {field.encode_name}{optional}: {name_of(field.type, named)};")
    return "\n".join([*lines, "}"])


def generate() -> str:
    """The whole file."""
    named: dict[str, inspect.StructType] = {}
    roots = [*answers.ALL, *commands.Driving]
    for kind in inspect.multi_type_info(roots):
        name_of(kind, named)
    done: dict[str, str] = {}
    while len(done) < len(named):
        for name, kind in list(named.items()):
            if name not in done:
                done[name] = declare(kind, named)
    driving = " | ".join(kind.__name__ for kind in commands.Driving)
    return "\n".join([HEAD, *(done[name] + "\n" for name in sorted(done)), f"export type Driving = {driving};", ""])


def main(arguments: list[str]) -> int:
    text = generate()
    if "--check" in arguments:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET.name} is stale: run `python scripts/generate_types.py`", file=sys.stderr)
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
