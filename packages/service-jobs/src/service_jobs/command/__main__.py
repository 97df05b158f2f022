"""`python -m service_jobs.command` is `service-jobs`."""

import sys

from service_jobs.command.main import main

sys.exit(main())
