"""What a service runs on a Ray cluster: a supervisor, which is a job, and an actor for each seat.

Reading order: __main__ (its order and its proof), supervisor (what it does for the service), home (what
they say to each other), seat (the actor, and the agent that it starts). The code comes as the working directory of the
job, with `millrace_agent` and `millrace_worker` beside it.
"""
