"""mappa_rl"""
