"""The agent: the one process outside the isolation of an app, on this machine and on others. Standard library
only.

Reading order: start and order (what it is told). On the service's machine: local (starts, watches and ends a
program), watch (the same next to a container). On another machine: agent (the life of a seat), files and unpack
(the files of the app), app (the processes of the app), build and image (a seat that builds), service, channel
and relay (how its connections reach the service), handover (what outlives a service), check (whether an agent
could run in an image). Both use ward (the code that becomes the app's process), child, door (connections home),
held, looks and memory (limits), listening (where a server listens) and loop (the one thread).
"""
