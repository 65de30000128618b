"""`python -m farm`: the `farm` command, for who has the environment's Python but not its `bin` on the PATH."""

from __future__ import annotations

from farm.cli.main import main

if __name__ == "__main__":
    main()
