"""Works on the files of a project's storage, in place of the service, where each project has a user of its own.

Reading order: start (the helper, which forks for each operation), changes, looks. All of them run as the project's
user, behind the isolation of its apps: whatever an app puts there, they reach no more than it does. Only adopt runs as
root, before any app: it gives the files of a project to the project's user.
"""
