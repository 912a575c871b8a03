"""``python -m tests.programs``: see ``hunt``."""

import sys

from tests.programs.hunt import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
