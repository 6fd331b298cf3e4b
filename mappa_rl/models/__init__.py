"""Tokenizers, adapters, tiny and pretrained models, and the map from agents to policies."""
