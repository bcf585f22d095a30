"""x"""
CORPUS = {}
