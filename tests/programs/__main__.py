"""``python -m programs``: see ``hunt``."""

import sys

from programs.hunt import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
