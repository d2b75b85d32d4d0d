"""`python -m worldline`."""

import sys

from worldline.cli import main

sys.exit(main())
