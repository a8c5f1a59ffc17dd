"""The Python side of Millrace: standard library only, so that an app's environment stays its own.

Reading order: start (the order from the service), keeper (nothing outlives its owner), template (import once, fork per
replica), serve (the life of a replica), call (one call), then serial, threaded and looped (the ways of running them),
with bind and encode beside them. chunks: how frames leave, and when a generator waits.
"""
