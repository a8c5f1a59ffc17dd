import { section } from "./row.ts";

/** From a folder to a running version. */
export const DEPLOY = {
  ...section("docs/management.md: Deploys", {
    "deploy.protocol":
      "A zip goes from POST …/apps by its uploadUrl to a build in a final state, and serves.",
    "deploy.one-call": "One call with the zip as its body deploys and tells the build's log as it comes.",
    "deploy.bundle":
      "An archive that could write outside its folder, or is no plain folder, is refused whole.",
    "deploy.config": "All faults of a deploy's configuration are told at once.",
    "deploy.build-log": "A build's log can be followed while it runs and read afterwards.",
    "deploy.cancel": "A build that is cancelled leaves nothing behind, at any step.",
  }),
  ...section("docs/decisions/0017-builds.md", {
    "deploy.pip": "Packages are installed from the host's index or from wheels in the bundle.",
    "deploy.env-cache": "The same dependencies are installed once, for all versions that have them.",
    "deploy.env-held": "An environment that a build uses is not cleared away before its version is stored.",
    "deploy.commands":
      "pre_build_commands and shell_commands run in the bundle; a failing one fails the build.",
    "deploy.python": "An app runs on the host's Python of the version it names, or learns which there are.",
    "deploy.check": "A version serves only after one replica of it has started.",
  }),
  ...section("docs/decisions/0015-versions.md", {
    "deploy.rollout": "Traffic moves at once when the new version is ready, or in 5 steps.",
    "deploy.syntax":
      "A bundle with a Python file that does not parse is refused before its build, with file and line.",
    "deploy.dry-run":
      "A dry run checks all that can be checked without a build, says what a deploy would do, and changes nothing.",
    "deploy.apt": "A command that fails to install system packages is answered with where they go.",
    "deploy.compiler":
      "A package that cannot be compiled is answered with the system package that is missing, and what installs it.",
    "deploy.rollback": "An earlier version serves again.",
    "deploy.no-failed-call": "Deploys under load fail no call and cut no stream.",
    "deploy.kill": "kill -9 at any step leaves the old or the new version whole, and nothing half-made.",
    "deploy.old-runs": "An async run executes on the version that accepted it while that exists.",
    "deploy.retention": "Old versions and unused environments are removed.",
    "deploy.settings": "Scaling can be changed without a new version.",
    "deploy.delete": "A deleted app finishes what it holds.",
    "deploy.secrets": "Secrets are in the environment of replicas that start after the change.",
    "deploy.storage": "Persistent storage is one folder per project, whatever version runs.",
    "deploy.once": "A file can be run once, without a version.",
    "deploy.signatures": "The parameters, types, defaults and docstrings of functions are known.",
    "deploy.openapi": "An app's own OpenAPI document is made from its signatures.",
  }),
};
