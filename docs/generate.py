"""Fills in what pages say of the code, between marks, and writes the schema. A test fails when they differ."""

import sys

from facts import HERE, fill, pages

from router.config.reading import schema_path
from router.config.schema import write_schema
from router.wiring.build import known_names


def main() -> None:
    texts = {path: fill(path.read_text(encoding="utf-8")) for path in pages()}
    for path, text in (texts | {schema_path(): write_schema(known_names())}).items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(HERE.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()
