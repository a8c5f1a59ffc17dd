"""What a service runs on a Ray cluster: a supervisor, which is a job, and an actor for each seat.

Reading order: __main__, supervisor, home (its connection to the service), seat (the actor, which starts an agent). The
code is the working directory of the job, with `millrace_agent` and `millrace_worker` beside it.
"""
