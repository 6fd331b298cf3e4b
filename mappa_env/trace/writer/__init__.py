"""A process that writes what the environments of another record, off their hot path."""
