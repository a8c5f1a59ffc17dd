"""The first process of a seat elsewhere: standard library only, beside the harness in the image of a pod.

Reading order: start (its order), agent (the life of a seat), line (what it and the service say to each other), fetch,
unpack and fit (the app's files), walled (what it will live behind), harness, server, child and lines (the app below
it), build and pack (a seat that builds), relay and channel (how its connections reach the service), kept and estate
(what of them lasts when the service is gone), loop (the one thread that all of this runs in), check (whether an agent
could run in an image).
"""
