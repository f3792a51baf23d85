"""The package's long description: README.md with absolute links, since an index shows no other file of the project."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class LongDescription(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        files = f"]({metadata['urls']['Source']}/blob/main/"
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": re.sub(r"\]\((?!https?:|#)", files, text),
        }
