"""`python tests/fuzz`: see `--help`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # so that the modules beside this one are `fuzz.…`
    from fuzz.command import main

    sys.exit(main())
