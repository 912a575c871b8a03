"""``python -m tests.plans``: see ``run``."""

import sys

from .run import main

sys.exit(main())
