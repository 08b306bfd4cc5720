"""Write the generated parts of all pages: ``python docs/making``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from making import generated

for path, text in generated.current().items():
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8", newline="\n")
        print(path.relative_to(generated.DOCS))
