"""Serves models that were written for Cog: the `main.py` that a deploy makes for a folder with a `cog.yaml` calls
`serve`.

`model.py` finds the model and makes the app's `setup` and `run` of it; `inputs.py` checks the arguments; `files.py`
brings files in and out; `cog.py` is what `import cog` finds, unless the app has a `cog` of its own.
"""

from .model import serve as serve
