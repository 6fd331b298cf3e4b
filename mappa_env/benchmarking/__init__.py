"""Measuring sandboxes (``mappa-env bench sandbox``) and, in ``coach/``, coaches (``mappa-env coach``)."""
