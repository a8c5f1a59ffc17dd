"""The Python side of Millrace: standard library only, so that an app's environment stays its own.

Reading order: start (the order from the service), keeper (nothing outlives its owner), template (import
once, fork per replica), replica (one process that serves), then serial, threaded and looped (the three
ways to run calls), with call, bind, encode, sigterm and logs beside them.
"""
