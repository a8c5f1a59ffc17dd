"""For `millrace doctor --escape`: hostile is an app that attacks, victim a process outside all walls."""
