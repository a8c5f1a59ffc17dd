"""The agent: the one process outside the isolation of an app. Standard library only.

On the service's machine: local (starts, watches and ends a program), watch (the same next to a container). On another
machine: start and order (its input), agent (the life of a seat), files and unpack (the files of the app), app (its
processes), build and image (a seat that builds), line, channel and relay (how connections reach the service), handover
(what outlives a service), check (whether an agent could run in an image). Both use ward (the code that becomes the
app's process), child, door (connections home), held, looks and memory (limits), listening and loop.
"""
