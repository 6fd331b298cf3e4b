"""Measure what an action costs in each sandbox, compared with a fresh interpreter and a bare warm fork.

The same as ``mappa-env bench sandbox``.

    python benchmarks/sandbox.py [--quick] [--json PATH] [--figure PATH]
"""

from __future__ import annotations

import argparse
import sys

from mappa_env.benchmarking.sandbox.command import arguments, run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
