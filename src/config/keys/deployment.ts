import { APP_NAME } from "../../model/names.ts";
import type { DeploymentConfig } from "../../model/app-config.ts";
import { block, boolean, booleanOr, duration, line, listOf, matching, oneOf, optional } from "../readers.ts";
import type { AppKeys } from "./key.ts";

const appName = matching(
  "1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end",
  (text) => APP_NAME.test(text),
);

const pythonVersion = matching('a version in quotes, such as "3.12"', (text) =>
  /^3\.\d{1,2}(\.\d{1,2})?$/.test(text),
);

const patterns = listOf("a list of up to 1000 patterns", line(1024), 1000);
const commands = listOf("a list of up to 1000 commands", block(8192), 1000);

/** The keys of `[deployment]`. */
export const DEPLOYMENT_KEYS: AppKeys<DeploymentConfig> = {
  name: {
    path: "deployment.name",
    payload: "name",
    reader: optional(appName),
    default: null,
    meaning: "The app's name (default: the folder's name).",
  },
  pythonVersion: {
    path: "deployment.python_version",
    payload: "pythonVersion",
    reader: optional(pythonVersion),
    default: null,
    meaning: "The Python version the app needs (default: the host's).",
  },
  disableAuth: {
    path: "deployment.disable_auth",
    payload: "disableAuth",
    reader: boolean(),
    default: false,
    meaning: "True makes the app public: anyone may call it without a token.",
  },
  include: {
    path: "deployment.include",
    payload: "include",
    reader: patterns,
    default: ["*"],
    meaning: "Files that are part of the app.",
  },
  exclude: {
    path: "deployment.exclude",
    payload: "exclude",
    reader: patterns,
    default: [".*"],
    meaning: "Files to leave out of those that `include` matches.",
  },
  shellCommands: {
    path: "deployment.shell_commands",
    payload: "shellCommands",
    reader: commands,
    default: [],
    meaning: "Commands run at the end of the build.",
  },
  preBuildCommands: {
    path: "deployment.pre_build_commands",
    payload: "preBuildCommands",
    reader: commands,
    default: [],
    meaning: "Commands run before dependencies are installed.",
  },
  dockerBaseImageUrl: {
    path: "deployment.docker_base_image_url",
    payload: "baseImage",
    reader: optional(line(2048)),
    default: null,
    meaning: "Base image. Ignored with a warning: builds use the host.",
  },
  useUv: {
    path: "deployment.use_uv",
    payload: "useUv",
    reader: boolean(),
    default: false,
    meaning: "Install Python packages with uv instead of pip.",
  },
  deploymentInitializationTimeoutSeconds: {
    path: "deployment.deployment_initialization_timeout",
    payload: "deploymentInitializationTimeout",
    reader: duration("1s", "2h"),
    default: "10m",
    meaning: "How long a new version may take to become ready.",
  },
  extraParams: {
    path: "deployment.extra_params",
    payload: null,
    reader: oneOf(["reject", "ignore"]),
    default: "reject",
    meaning: "What to do with request members that the function does not accept.",
  },
  sse: {
    path: "deployment.sse",
    payload: null,
    reader: oneOf(["auto", "wrap"]),
    default: "auto",
    meaning: "Whether a chunk that is complete SSE text is sent unchanged or wrapped like any other.",
  },
  fork: {
    path: "deployment.fork",
    payload: null,
    reader: oneOf(["auto", "never"]),
    default: "auto",
    meaning: "Whether more replicas may be forked from a template that has imported the app.",
  },
  network: {
    path: "deployment.network",
    payload: null,
    reader: booleanOr("egress"),
    default: true,
    meaning:
      'Whether replicas may use the network. "egress" allows only TCP connections to public addresses, to those in `MILLRACE_EGRESS_ALLOW` and to servers of the app itself. Both limits need `MILLRACE_ISOLATION`; see SECURITY.md.',
  },
  recordPayloads: {
    path: "deployment.record_payloads",
    payload: null,
    reader: oneOf(["all", "async", "none"]),
    default: "all",
    meaning: "Which runs' inputs and results are stored.",
  },
};
