"""Finished runs as tables, figures and HTML."""
