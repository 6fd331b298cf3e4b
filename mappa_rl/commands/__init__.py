"""One file per subcommand of ``mappa-rl``."""
