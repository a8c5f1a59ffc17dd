"""The attackers and the victims of `millrace doctor --escape`.

hostile is the app that is deployed: it runs what it is told to. victim is a process outside all walls.
"""
