"""Measures a coach with faults of known culprits (``bench``) and with injections (``probe``)."""
