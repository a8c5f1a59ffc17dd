"""The entry point of the job: `python3 -m millrace_ray ORDER`."""

from millrace_ray.start import main

main()
