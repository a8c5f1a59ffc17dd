"""Works on the files of a project's storage, where each project has a user of its own.

Reading order: start (the helper, which forks for each operation), changes, looks. They run as the project's user,
behind the isolation of its apps, and so reach no more than those. Only adopt runs as root, before any app.
"""
