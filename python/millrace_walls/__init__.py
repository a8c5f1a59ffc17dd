"""The isolation of an app from its machine. Runs on the host's interpreter, before the app's own.

Reading order: plan (the input), places (the visible files), then the walls: namespaces, landlock, seccomp. walls raises
them in order; probe tries them. While an app runs: notifier, judge, connects, listeners, unix_sockets.
"""
