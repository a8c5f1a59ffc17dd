"""What a service runs on a Ray cluster: a supervisor, which is a job, and an actor for each seat.

Reading order: start (its order, and how it proves whose it is), supervisor (what it does for the service), home (what
they say to each other), seat (the actor), agent (what the actor starts). The code comes as the working directory of the
job, with `millrace_agent` and `millrace_worker` beside it.
"""
