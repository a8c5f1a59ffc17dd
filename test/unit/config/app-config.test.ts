import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { APP_KEYS } from "../../../src/config/app-shape.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

verifies(
  [
    "config.deployment.keys",
    "config.hardware.keys",
    "config.scaling.keys",
    "config.limits.keys",
    "config.dependencies.keys",
    "config.response-grace-period.default",
  ],
  "with nothing given, every key has its default",
  () => {
    expect(readAppConfig({ host: HOST })).toEqual({
      cog: null,
      config: {
        deployment: {
          name: null,
          pythonVersion: null,
          pythonVersionStrict: false,
          disableAuth: false,
          include: ["*"],
          exclude: [".*"],
          shellCommands: [],
          preBuildCommands: [],
          dockerBaseImageUrl: null,
          requireImage: false,
          containerRuntime: null,
          useUv: false,
          deploymentInitializationTimeoutSeconds: 600,
          extraParams: "reject",
          sse: "auto",
          fork: "auto",
          network: true,
          unixSockets: false,
          recordPayloads: "all",
        },
        hardware: {
          cpu: 2,
          memoryGb: 4,
          compute: ["CPU"],
          gpuCount: 0,
          gpuMemoryGb: null,
          provider: null,
          region: null,
        },
        named: { cpu: null, memoryGb: null, templateKeepSeconds: null },
        scaling: {
          minReplicas: 0,
          maxReplicas: 4,
          replicaConcurrency: 1,
          cooldownSeconds: 30,
          responseGracePeriodSeconds: 900,
          scalingMetric: "concurrency_utilization",
          scalingTarget: 100,
          scalingBuffer: 0,
          rollOutDurationSeconds: 0,
          evaluationIntervalSeconds: 30,
          loadBalancingAlgorithm: "min-connections",
          computeTier: null,
          maxQueue: 1000,
          maxQueueSeconds: 600,
          maxAttempts: 2,
          templateKeepSeconds: 900,
        },
        limits: {
          maxBodyBytes: 32 * 2 ** 20,
          maxResultBytes: 32 * 2 ** 20,
          maxChunkBytes: 4 * 2 ** 20,
          maxTranscriptBytes: 64 * 2 ** 20,
          resultRetentionSeconds: 86_400,
          maxLogBytes: 500_000_000,
          streamStallTimeoutSeconds: 60,
        },
        dependencies: { pip: {}, apt: {}, conda: {}, paths: { pip: null, apt: null, conda: null } },
        customRuntime: null,
      },
      warnings: [],
    });
  },
);

const EVERY_KEY = `
[deployment]
name = "my-app"
python_version = "3.12"
python_version_strict = true
disable_auth = true
include = ["a", "b"]
exclude = []
shell_commands = ["echo 1"]
pre_build_commands = ["""
echo 2
echo 3"""]
docker_base_image_url = "debian:bookworm-slim"
require_image = true
use_uv = true
deployment_initialization_timeout = 60
extra_params = "ignore"
sse = "wrap"
fork = "never"
network = false
unix_sockets = true
record_payloads = "none"
[hardware]
cpu = 0.5
memory = 16
compute = ["AMPERE_A10", "CPU"]
gpu_count = 2
gpu_memory = 20.5
provider = "aws"
region = "us-east-1"
[scaling]
min_replicas = 1
max_replicas = 2000
replica_concurrency = 8
cooldown = "2m"
response_grace_period = "12h"
scaling_metric = "requests_per_second"
scaling_target = 2.5
scaling_buffer = 3
roll_out_duration_seconds = 600
evaluation_interval_seconds = "6s"
load_balancing_algorithm = "random-choice-2"
compute_tier = "shared"
max_queue = 1
max_queue_seconds = 5
max_attempts = 1
template_keep = 0
[limits]
max_body = 1024
max_result = "256MiB"
max_chunk = "4 MB"
max_transcript = "2KiB"
result_retention = "30d"
max_logs = "7MB"
stream_stall_timeout = 1
[batches]
openai = true
[retry]
max_attempts = 100
initial_delay = "250ms"
backoff = 1.5
max_delay = "2h"
jitter = 0
on = ["crash", "error", "timeout", "httpx.ReadTimeout"]
[queue]
concurrency_limit = 20
concurrency_key_limit = 2
rate_limit = "100/1m"
concurrency_key_rate_limit = "5/1h"
max_backlog = 100000
[dependencies.pip]
torch = ">=2.4"
"transformers[torch]" = ""
[dependencies.apt]
ffmpeg = "latest"
[dependencies.conda]
cuda = "==12"
[dependencies.paths]
apt = "pkglist.txt"
[runtime]
container_runtime = "v2"
[runtime.custom]
entrypoint = ["uvicorn", "main:app"]
port = 5000
healthcheck_endpoint = "/health"
readycheck_endpoint = "ready"
pass_authorization = true
websocket_max_age = "2h"
websocket_idle_timeout = "5m"
dockerfile_path = "./Dockerfile"
`;

verifies(
  [
    "config.toml",
    "config.deployment.keys",
    "config.hardware.keys",
    "config.scaling.keys",
    "config.limits.keys",
    "config.dependencies.keys",
    "config.runtime-custom.keys",
  ],
  "every key is read from the file, in both forms alike",
  () => {
    const plain = readToml(EVERY_KEY);
    expect(plain.config).toEqual({
      deployment: {
        name: "my-app",
        pythonVersion: "3.12",
        pythonVersionStrict: true,
        disableAuth: true,
        include: ["a", "b"],
        exclude: [],
        shellCommands: ["echo 1"],
        preBuildCommands: ["echo 2\necho 3"],
        dockerBaseImageUrl: "debian:bookworm-slim",
        requireImage: true,
        containerRuntime: "v2",
        useUv: true,
        deploymentInitializationTimeoutSeconds: 60,
        extraParams: "ignore",
        sse: "wrap",
        fork: "never",
        network: false,
        unixSockets: true,
        recordPayloads: "none",
      },
      hardware: {
        cpu: 0.5,
        memoryGb: 16,
        compute: ["AMPERE_A10", "CPU"],
        gpuCount: 2,
        gpuMemoryGb: 20.5,
        provider: "aws",
        region: "us-east-1",
      },
      named: { cpu: 0.5, memoryGb: 16, templateKeepSeconds: 0 },
      scaling: {
        minReplicas: 1,
        maxReplicas: 2000,
        replicaConcurrency: 8,
        cooldownSeconds: 120,
        responseGracePeriodSeconds: 43_200,
        scalingMetric: "requests_per_second",
        scalingTarget: 2.5,
        scalingBuffer: 3,
        rollOutDurationSeconds: 600,
        evaluationIntervalSeconds: 6,
        loadBalancingAlgorithm: "random-choice-2",
        computeTier: "shared",
        maxQueue: 1,
        maxQueueSeconds: 5,
        maxAttempts: 1,
        templateKeepSeconds: 0,
      },
      limits: {
        maxBodyBytes: 1024,
        maxResultBytes: 2 ** 28,
        maxChunkBytes: 4_000_000,
        maxTranscriptBytes: 2048,
        resultRetentionSeconds: 2_592_000,
        maxLogBytes: 7_000_000,
        streamStallTimeoutSeconds: 1,
      },
      batches: { openai: true },
      retry: {
        maxAttempts: 100,
        initialDelaySeconds: 0.25,
        backoff: 1.5,
        maxDelaySeconds: 7200,
        jitter: 0,
        on: ["crash", "error", "timeout", "httpx.ReadTimeout"],
      },
      queue: {
        concurrencyLimit: 20,
        concurrencyKeyLimit: 2,
        rateLimit: { count: 100, periodSeconds: 60 },
        concurrencyKeyRateLimit: { count: 5, periodSeconds: 3600 },
        maxBacklog: 100_000,
      },
      dependencies: {
        pip: { torch: ">=2.4", "transformers[torch]": "" },
        apt: { ffmpeg: "latest" },
        conda: { cuda: "==12" },
        paths: { pip: null, apt: "pkglist.txt", conda: null },
      },
      customRuntime: {
        entrypoint: ["uvicorn", "main:app"],
        port: 5000,
        healthcheckEndpoint: "/health",
        readycheckEndpoint: "/ready",
        passAuthorization: true,
        websocketMaxAgeSeconds: 7_200,
        websocketIdleSeconds: 300,
        dockerfilePath: "./Dockerfile",
      },
    });
    expect(plain.warnings).toEqual(["dependencies.paths.apt is used; dependencies.apt is ignored"]);

    const rooted = readToml(EVERY_KEY.replaceAll(/^\[/gm, "[cerebrium."));
    expect(rooted.config).toEqual(plain.config);
    expect(rooted.warnings).toEqual([
      "dependencies.paths.apt is used; cerebrium.dependencies.apt is ignored",
    ]);

    const keys = EVERY_KEY.matchAll(/^([a-z_]+) = /gm);
    const named = new Set([...keys].map((match) => match[1]));
    // No app has both a server and batches or schedules, whose keys batching.test.ts and schedules.test.ts read.
    for (const { path } of APP_KEYS.filter(
      (key) => !/^(?:dependencies|batching|schedules)\./.test(key.path),
    )) {
      expect(named).toContain(path.slice(path.lastIndexOf(".") + 1));
    }
  },
);

verifies(
  "config.response-grace-period.top-level",
  "the grace period is also taken at the top level, and the one in scaling wins",
  () => {
    const grace = (text: string): number => readToml(text).config.scaling.responseGracePeriodSeconds;
    expect(grace("response_grace_period = 60")).toBe(60);
    expect(grace('[cerebrium]\nresponse_grace_period = "2m"')).toBe(120);
    expect(grace("response_grace_period = 60\n[cerebrium.scaling]\ncooldown = 1")).toBe(60);

    const both = "response_grace_period = 60\n[scaling]\nresponse_grace_period = 90";
    expect(grace(both)).toBe(90);
    expect(readToml(both).warnings).toEqual([
      "scaling.response_grace_period is used; response_grace_period is ignored",
    ]);
  },
);

verifies(
  "config.all-problems",
  "all problems of a file are reported at once, each with key, bound and value",
  () => {
    const text = `
    hardware = 5
    [cerebrium.deployment]
    python_version = 2.7
    [cerebrium.scaling]
    cooldown = "2 days"
    min_replicas = 9223372036854775807
    replica_concurrency = 0
    [cerebrium.limits]
    max_body = "lots"
    [cerebrium.dependencies]
    pip = ["torch"]
    [cerebrium.dependencies.apt]
    "-o" = "x"
    ffmpeg = 5
    [cerebrium.dependencies.paths]
    conda = "../../etc/passwd"`;
    expect(problemsOf(text)).toEqual([
      'cerebrium.dependencies.pip must be a table, got ["torch"]',
      'cerebrium.deployment.python_version must be a version such as "3.12", got 2.7',
      "cerebrium.scaling.min_replicas must be a whole number from 0 to 2000, got 9223372036854775807",
      "cerebrium.scaling.replica_concurrency must be a whole number from 1 to 1000, got 0",
      'cerebrium.scaling.cooldown must be a duration from 0s to 1h, got "2 days"',
      'cerebrium.limits.max_body must be a size from 1KiB to 256MiB, got "lots"',
      `cerebrium.dependencies.paths.conda must be a path inside the app's folder, got "../../etc/passwd"`,
      'each name in cerebrium.dependencies.apt must be a package name of at most 256 characters that does not begin with a hyphen, got "-o"',
      "cerebrium.dependencies.apt.ffmpeg must be text of 1 to 256 characters on one line, got 5",
    ]);
  },
);

verifies("config.unknown-keys", "unknown keys and tables are warnings with the nearest known one", () => {
  const text = `
    [scaling]
    cooldwn = 1
    [hardware]
    cooldown = 1
    nothing_like_it = 1
    [depndencies.pip]
    a = "1"
    [runtime.cortex]
    b = 1
    [limits]
    "max\\nbody" = 1`;
  expect(readToml(text).warnings).toEqual([
    "scaling.cooldwn is not a known key; did you mean scaling.cooldown?",
    "hardware.cooldown is not a known key; did you mean scaling.cooldown?",
    "hardware.nothing_like_it is not a known key",
    "depndencies is not a known key; did you mean dependencies?",
    "runtime.cortex is not a known key",
    '"limits.max\\nbody" is not a known key; did you mean limits.max_body?',
  ]);
  expect(readToml("[cerebrium.scaling]\n[scaling]\ncooldown = 5").warnings).toEqual([
    "scaling is not a known key; did you mean cerebrium.scaling?",
  ]);
});

function readToml(text: string): ReturnType<typeof readAppConfig> {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: HOST });
}

function problemsOf(text: string): readonly string[] {
  try {
    readToml(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the configuration was accepted");
}
