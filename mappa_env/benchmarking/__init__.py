"""What an action costs in each sandbox: ``mappa-env bench sandbox`` and ``benchmarks/sandbox.py``."""
