"""`python -m bpc` is `bpc`."""

import sys

from bpc.cli.main import main

sys.exit(main())
