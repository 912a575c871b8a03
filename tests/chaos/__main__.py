"""``python -m chaos``: see ``run``."""

import sys

from chaos.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
