"""Sweeps: many experiments, and where they are carried out."""
