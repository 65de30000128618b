"""These packs are for the sandbox: outside of it nothing here is even collected."""

import os

collect_ignore_glob = [] if os.environ.get("FARM_ATTEMPT") else ["*"]
