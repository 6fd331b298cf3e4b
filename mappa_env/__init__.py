"""mappa_env"""
