"""All mutants of some files, with the text of their function before and after.

    python -m tools.power.mutant_texts FILE …

Start it in a copy of the tree that has mutmut's settings; it prints a JSON list of
``[name, file, function, before, after]``, with mutmut's names.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    json.dump([row for file in sys.argv[1:] for row in _mutants(file)], sys.stdout)


def _mutants(file: str) -> Iterator[tuple[str, str, str, str, str]]:
    import libcst as cst  # noqa: PLC0415
    from mutmut.mutation import file_mutation  # noqa: PLC0415
    from mutmut.mutation.trampoline_templates import mangle_function_name  # noqa: PLC0415
    from mutmut.utils.format_utils import get_mutant_name  # noqa: PLC0415

    module: Any
    module, mutations, *_ = file_mutation.create_mutations(file, Path(file).read_text())
    groups = file_mutation.group_by_top_level_node(mutations)
    for statement in module.body:
        is_class = isinstance(statement, cst.ClassDef)
        for function in statement.body.body if is_class else [statement]:
            if not isinstance(function, cst.FunctionDef):
                continue
            owner = statement.name.value if is_class else None
            mangled = mangle_function_name(name=function.name.value, class_name=owner)
            before = _text(module.code_for_node(function), is_class)
            for number, one in enumerate(groups.get(function, ()), start=1):
                name = get_mutant_name(Path(file), f"{mangled}__mutmut_{number}")
                changed: Any = file_mutation.deep_replace(
                    function, one.original_node, one.mutated_node
                )
                qualified = ".".join(filter(None, (owner, function.name.value)))
                after = _text(module.code_for_node(changed), is_class)
                yield name, file, qualified, before, after


def _text(code: str, is_method: bool) -> str:
    """The code as in the file: libcst returns a method without the indentation of its class."""
    return textwrap.indent(code, "    ") if is_method else code


if __name__ == "__main__":
    main()
