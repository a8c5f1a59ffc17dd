"""What stands between an app and the machine. Runs on the host's interpreter, isolated, before the app's own.

Reading order: plan (what it is told), places (which files), then the walls themselves: namespaces, landlock, seccomp;
walls raises them in order, and probe tries them. At work: notifier, judge, connects, listeners, unix_sockets.
"""
