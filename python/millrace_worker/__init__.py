"""The Python side of Millrace: standard library only, so that an app's environment stays its own.

Reading order: start (the order from the service), keeper (nothing outlives its owner), template (import once,
fork per replica), serve (the life of a replica), replica (what the ways of running calls share), then serial,
threaded and looped (those ways), with call, bind and encode beside them. Streams: chunks (a generator's loop),
outbox (how frames leave, and when a generator waits).
"""
