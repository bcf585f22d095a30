"""Solvers of our own, written for Diffrax. They load it, so methods import them where they are used."""
