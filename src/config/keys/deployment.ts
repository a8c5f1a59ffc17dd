import { APP_NAME } from "../../model/names.ts";
import type { DeploymentConfig } from "../../model/app-config.ts";
import {
  block,
  boolean,
  booleanOr,
  duration,
  line,
  listOf,
  mapped,
  matching,
  oneOf,
  optional,
  key,
} from "../readers.ts";
import type { AppKeys, Reader } from "../readers.ts";

const appName = matching(
  "1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end",
  (text) => APP_NAME.test(text),
);

const quotedVersion = matching('a version such as "3.12"', (text) => /^3\.\d{1,2}(\.\d{1,2})?$/.test(text));

/** As a number, 3.10 is 3.1, which clients pass on as "3.1". No app means Python 3.1. */
const pythonVersion: Reader<string> = {
  ...quotedVersion,
  read(raw) {
    const version = quotedVersion.read(typeof raw === "number" ? String(raw) : raw);
    return version === "3.1" ? "3.10" : version;
  },
};

const patterns = listOf("a list of up to 1000 patterns", line(1024), 1000);
/** An empty command is none: files that want none have a list with one such. */
const command: Reader<string> = {
  ...block(8192),
  read: (raw) => (typeof raw === "string" && raw.trim() === "" ? "" : block(8192).read(raw)),
};
const commands = mapped(listOf("a list of up to 1000 commands", command, 1000), (list) =>
  list.filter((text) => text !== ""),
);

/** The keys of `[deployment]`. */
export const DEPLOYMENT_KEYS: AppKeys<DeploymentConfig> = {
  name: key("deployment.name", "name", optional(appName)).describe(
    "The app's name (default: the folder's name).",
  ),
  pythonVersion: key("deployment.python_version", "pythonVersion", optional(pythonVersion)).describe(
    "The Python version the app needs (default: the service's own). See below for where it is looked for.",
  ),
  pythonVersionStrict: key("deployment.python_version_strict", null, boolean(), false).describe(
    "Whether a build fails rather than use a newer Python than `python_version`.",
  ),
  disableAuth: key("deployment.disable_auth", "disableAuth", boolean(), false).describe(
    "True makes the app public: anyone may call it without a token.",
  ),
  include: key("deployment.include", "include", patterns, ["*"]).describe("Files that are part of the app."),
  exclude: key("deployment.exclude", "exclude", patterns, [".*"]).describe(
    "Files to leave out of those that `include` matches.",
  ),
  shellCommands: key("deployment.shell_commands", "shellCommands", commands, []).describe(
    "Commands run at the end of the build.",
  ),
  preBuildCommands: key("deployment.pre_build_commands", "preBuildCommands", commands, []).describe(
    "Commands run before dependencies are installed.",
  ),
  dockerBaseImageUrl: key("deployment.docker_base_image_url", "baseImage", optional(line(2048))).describe(
    "The app's base image. Podman or docker builds the app's own image from it; without either, a warning says that it is not used. Pods run it directly.",
  ),
  requireImage: key("deployment.require_image", null, boolean(), false).describe(
    "Whether a build fails if the base image or the system packages cannot be used, because the host has neither podman nor docker, or the cluster no registry. Otherwise it warns and continues without them.",
  ),
  containerRuntime: key(
    "runtime.container_runtime",
    "containerRuntime",
    optional(oneOf(["v1", "v2"])),
  ).describe(
    "The runtime of the app's container, if it has one: `v1` is runc, `v2` is runsc (gVisor) if the host has it. For pods, `v2` is the runtime class `gvisor`.",
  ),
  useUv: key("deployment.use_uv", "useUv", boolean(), false).describe(
    "Install Python packages with uv. uv is also used without this if the host has it. Without uv, and in pods, a warning says that pip is used.",
  ),
  deploymentInitializationTimeoutSeconds: key(
    "deployment.deployment_initialization_timeout",
    "deploymentInitializationTimeout",
    duration("1s", "2h"),
    "10m",
  ).describe("How long a new version may take to become ready."),
  extraParams: key("deployment.extra_params", null, oneOf(["reject", "ignore"]), "reject").describe(
    "What to do with request members that the function does not accept.",
  ),
  sse: key("deployment.sse", null, oneOf(["auto", "wrap"]), "auto").describe(
    "Whether a chunk that is complete SSE text is sent unchanged or wrapped like any other.",
  ),
  fork: key("deployment.fork", null, oneOf(["auto", "never"]), "auto").describe(
    "Whether more replicas may be forked from a template that has imported the app.",
  ),
  network: key("deployment.network", null, booleanOr("egress"), true).describe(
    'Whether replicas may use the network. "egress" allows only TCP connections to public addresses, to those in `MILLRACE_EGRESS_ALLOW` and to servers of the app itself. Both limits need a host that can isolate apps; see SECURITY.md.',
  ),
  unixSockets: key("deployment.unix_sockets", null, boolean(), false).describe(
    "Whether the app may use unix sockets of other programs on the levels `process` and `landlock`. Without it, an app uses names without a path of its own there, and on `landlock` paths in its temporary folder; datagram sockets need it. From `userns` on an app has sockets of its own and needs no setting.",
  ),
  recordPayloads: key("deployment.record_payloads", null, oneOf(["all", "async", "none"]), "all").describe(
    "Which runs' inputs and results are stored.",
  ),
};
