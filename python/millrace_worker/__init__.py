"""The harness: runs an app's functions. Standard library only, so that an app's environment stays its own.

Reading order: start, keeper (nothing outlives its owner), template (import once, fork per replica), serve (a replica's
life), call (one call), then serial, threaded and looped (the ways of running calls), bind, encode and chunks.
"""
