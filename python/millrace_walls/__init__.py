"""What stands between an app and the machine. Runs on the host's interpreter, isolated, before the app's own.

Reading order: plan (what it is told), places (which files),
then the walls themselves: privileges, namespaces, landlock, seccomp. probe tries them, and
probe_seat does so for a seat elsewhere.
"""
