"""The subcommands of ``mappa-env``: each module has ``add(subparsers)`` and ``run(args) -> exit status``."""
