"""``python -m tests.chaos``: see ``run``."""

import sys

from tests.chaos.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
