import { section } from "./row.ts";

/** The app's configuration file. */
export const CONFIG = {
  ...section("seed: App; contract 2: Config file", {
    "config.toml": "The app configuration file is in TOML format.",
    "config.millrace-toml": "millrace.toml is read with its tables at the root.",
    "config.cerebrium-toml": "cerebrium.toml is read with the same tables under the root table cerebrium.",
    "config.precedence": "Deploy payload > cerebrium_toml in the payload > the file in the zip > default.",
    "config.absent": "An absent or null member is the default, never the previous deploy's value.",
    "config.all-problems": "All problems are reported at once, each with key, value and bound.",
    "config.unknown-keys": "Unknown keys are warned about by name with the nearest known one.",
    "config.durations": 'Durations are a number of seconds or text such as "90s", "15m", "1h30m".',
  }),
  ...section("contract 2: Config file, table", {
    "config.deployment.keys": "Every key of [deployment] is read and has the contract's default.",
    "config.disable-auth": "Only an explicit true for disable_auth makes an app public.",
    "config.hardware.keys": "Every key of [hardware] is read and has the contract's default.",
    "config.hardware.absent-on-host":
      "Hardware that the host does not have is accepted with a warning in the build log.",
    "config.scaling.keys": "Every key of [scaling] is read and has the contract's default.",
    "config.min-replicas.bounds": "min_replicas is 0 to 2000.",
    "config.max-replicas.default": "max_replicas defaults to the host's CPU count, at least 2.",
    "config.cooldown.bounds": "cooldown is 0 to 3600 s.",
    "config.limits.keys": "Every key of [limits] is read and has the contract's default.",
    "config.dependencies.keys":
      "dependencies.pip, apt and conda take name = version spec, or a file by paths.",
    "config.runtime-custom.keys": "Every key of [runtime.custom] is read.",
    "config.runtime-custom.refused":
      "A Dockerfile where nothing builds it, or no entrypoint, ends build_failure and says what to do.",
    "config.network":
      "network = false keeps an app off the network if MILLRACE_ISOLATION names a level; else the build warns.",
  }),
  ...section("docs/config.md: App configuration", {
    "config.batching.keys":
      "Every key of [batching.FUNCTION] is read within its bounds; what excludes each other is refused.",
    "config.batching.order": "The harness is told which functions are batched, and how.",
    "config.batching.max-queue": "A deploy warns of batches that max_queue keeps from filling.",
  }),
  ...section("seed: App, Limits; contract 2: scaling", {
    "config.response-grace-period.default": "response_grace_period is 15 minutes by default.",
    "config.response-grace-period.bounds": "response_grace_period is 1 s to 12 hours.",
    "config.response-grace-period.top-level":
      "response_grace_period is also taken at the top level of the file.",
  }),
};
