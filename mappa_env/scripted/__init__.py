"""scripted"""
