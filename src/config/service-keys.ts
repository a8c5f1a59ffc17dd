import { isIP } from "node:net";
import { gpuChoice } from "./gpu-choice.ts";
import { readMailServer, readSender } from "../kit/smtp.ts";
import {
  boolean,
  cidr,
  duration,
  integer,
  line,
  listOf,
  mapped,
  matching,
  oneOf,
  optional,
  publicUrl,
  setting,
  size,
  resolvedPath,
} from "./readers.ts";
import type { Reader, SettingKeys } from "./readers.ts";

/** User and group ids, both ends included. */
export type UidRange = { readonly first: number; readonly last: number };

const milliseconds = (min: string, max: string): Reader<number> =>
  mapped(duration(min, max), (seconds) => Math.round(seconds * 1000));

/** 0 means any free port. */
const port = integer(0, 65_535);

const hostName = matching("an IP address or a host name", (text) => {
  if (isIP(text) !== 0) return true;
  // Only digits and dots: a mistyped IP address.
  return text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text) && !/^[\d.]+$/.test(text);
});

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
/** One or more labels. The last one must not be a number, because that would be an IP address. */
const WILDCARD = new RegExp(`^\\*\\.(?:${LABEL}\\.)*(?!\\d+$)${LABEL}$`, "i");
/** A host name has at most 253 characters; an app's label and a dot take up to 64 of them. */
const MAX_DOMAIN_CHARS = 189;

/** Gives the domain in lower case, without `*.`. */
const wildcard = mapped(
  matching(
    "a wildcard such as *.apps.example.com",
    (text) => WILDCARD.test(text) && text.length - 2 <= MAX_DOMAIN_CHARS,
  ),
  (text) => text.slice(2).toLowerCase(),
);

const smtpUrl: Reader<string> = {
  ...matching(
    "an address such as smtps://user:password@mail.example.com",
    (text) => readMailServer(text) !== null,
  ),
  secret: true,
};

const origin = matching(
  '"*" or an origin such as https://example.com',
  (text) => text === "*" || (/^https?:\/\//.test(text) && URL.parse(text)?.origin === text),
);

const origins = listOf('a list of origins such as https://example.com, or "*"', origin, 1000);

const sender = matching(
  "an address such as millrace@example.com or Millrace <millrace@example.com>",
  (text) => readSender(text) !== null,
);

const logLevel = oneOf(["trace", "debug", "info", "warn", "error", "fatal", "silent"]);
const isolation = oneOf(["auto", "none", "process", "landlock", "userns", "uid"]);

/** Gives CIDRs, each with its prefix length. */
const ranges = listOf("a list of address ranges such as 10.0.0.0/8 or fd00::/8", cidr(), 1000);

/** The highest id that the kernel accepts; the next one means "no user". */
const HIGHEST_UID = 0xfffffffe;
/** Lower ids belong to users of the system. */
const LOWEST_UID = 1_000;

const uidRange = mapped(
  matching(
    `two ids from ${LOWEST_UID} to ${HIGHEST_UID} with a hyphen between them, the lower one first`,
    (text) => parseUids(text) !== null,
  ),
  (text) => parseUids(text) as UidRange,
);

function parseUids(text: string): UidRange | null {
  const [, first, last] = (/^(\d{1,10})-(\d{1,10})$/.exec(text) ?? []).map(Number);
  if (first === undefined || last === undefined) return null;
  return first >= LOWEST_UID && first <= last && last <= HIGHEST_UID ? { first, last } : null;
}

/** What every installation may set. */
export const SERVICE_KEYS = {
  dataDir: setting("data_dir", resolvedPath, "./.millrace").describe(
    "Where the service keeps its data; relative to the working directory.",
  ),
  host: setting("host", hostName, "127.0.0.1").describe("The address both listeners bind to."),
  apiPort: setting("api_port", port, "4000").describe("Port of the app endpoints; 0 picks a free one."),
  basePort: setting("base_port", port, "4100").describe(
    "Port of the management API and the dashboard; 0 picks a free one.",
  ),
  publicApiUrl: setting("public_api_url", optional(publicUrl())).describe(
    "Address of the app endpoints as callers see it. If unset, links use the request's Host.",
  ),
  publicBaseUrl: setting("public_base_url", optional(publicUrl())).describe(
    "Address of the management API as callers see it. If unset, links use the request's Host.",
  ),
  appHosts: setting("app_hosts", optional(wildcard)).describe(
    "Gives each app an origin of its own: the app endpoints also serve it at the root of {app}--{project}.apps.example.com. If unset, all apps share one origin.",
  ),
  python: setting("python", line(4096), "python3").describe(
    "The interpreter for apps: a path, or a name on the PATH.",
  ),
  logLevel: setting("log_level", logLevel, "info").describe("The lowest level that is logged."),
  shutdownGraceMs: setting("shutdown_grace", milliseconds("0s", "1h"), "30s").describe(
    "How long an orderly stop waits for runs in progress.",
  ),
  trustedProxies: setting("trusted_proxies", ranges, "").describe(
    "Proxies whose X-Forwarded-For header is trusted; the address they forward counts instead of their own.",
  ),
  corsOrigins: setting("cors_origins", origins, "*").describe(
    "Origins whose pages may call the app endpoints.",
  ),
  webhookAllow: setting("webhook_allow", ranges, "").describe(
    "Private address ranges that webhooks may reach.",
  ),
  smtpUrl: setting("smtp_url", optional(smtpUrl)).describe(
    "Mail server for invitations, address verification and password resets. If unset, no mail is sent.",
  ),
  smtpFrom: setting("smtp_from", optional(sender)).describe(
    "The sender of those mails; required with smtp_url.",
  ),
} satisfies SettingKeys;

/** How much is kept, and how much callers may take. */
export const LIMIT_KEYS = {
  maxRuns: setting("max_runs", integer(1, 1_000_000_000), "10000000").describe(
    "How many run records to keep; beyond that, the oldest finished ones are removed first.",
  ),
  maxStorageBytes: setting("max_storage", size("1MB", "1000TB"), "10GB").describe(
    "How much space inputs, results and transcripts may take; beyond that, those of the oldest finished runs are removed first.",
  ),
  maxLogBytes: setting("max_logs", size("1MB", "1000TB"), "2GB").describe(
    "How much space the log lines of all apps may take; beyond that, the oldest lines of the app with the most are removed.",
  ),
  maxProjectStorageBytes: setting("max_project_storage", optional(size("1MB", "1000TB"))).describe(
    "How much space the persistent storage of a project may take; beyond that, its replicas are ended, and none starts until files are removed. If unset, there is no quota.",
  ),
  maxScratchBytes: setting("max_scratch", size("1MB", "1000TB"), "10GB").describe(
    "How much space the temporary files of a template and its replicas may take, where apps are isolated. Beyond that, they are ended.",
  ),
  diskReserveBytes: setting("disk_reserve", size("0B", "1000TB"), "256MB").describe(
    "With SQLite: free space to keep on the data directory's disk. Below it, async runs, deploys, uploads and log lines are refused, and plain calls are answered but only their record is stored.",
  ),
  recordRetentionMs: setting("record_retention", milliseconds("1h", "3650d"), "30d").describe(
    "How long records of runs and of finished deliveries, and log lines of apps, are kept.",
  ),
  auditRetentionMs: setting("audit_retention", milliseconds("1d", "3650d"), "365d").describe(
    "How long entries of the audit log are kept.",
  ),
  maxConnections: setting("max_connections", integer(1, 1_000_000), "10000").describe(
    "Open connections for calls; fewer if the limit on open files is too low. The management API may hold as many, and at most an eighth of what that limit allows. One address that has sent no token gets at most 2000 or a fifth of them, and never more than half.",
  ),
  bodyTimeoutMs: setting("body_timeout", milliseconds("100ms", "12h"), "60s").describe(
    "How long a whole request may take to arrive; for an upload, how long it may stall.",
  ),
  idleTimeoutMs: setting("idle_timeout", milliseconds("100ms", "1h"), "65s").describe(
    "How long a connection may stay open without a request, or with a response that the caller does not read.",
  ),
} satisfies SettingKeys;

/** What separates apps from the rest of the machine and network. */
export const WALL_KEYS = {
  isolation: setting("isolation", isolation, "auto").describe(
    "Isolation of apps and builds. `auto` is the strongest level that the host supports; a named level is the weakest to accept: the service does not start with less.",
  ),
  uidRange: setting("uid_range", uidRange, "1900000000-1900065535").describe(
    "User and group ids that are unused on the machine: on `uid`, each project gets one of them.",
  ),
  egressOnly: setting("egress_only", boolean(), "false").describe(
    'Treats `network = true` of every app as "egress".',
  ),
  egressAllow: setting("egress_allow", ranges, "").describe(
    'Private address ranges that apps with `network = "egress"` may connect to.',
  ),
  networkDeny: setting("network_deny", ranges, "").describe(
    "Address ranges that no app may connect to over TCP, besides the metadata services of clouds.",
  ),
  networkUnenforced: setting("network_unenforced", oneOf(["refuse", "warn"]), "refuse").describe(
    'What to do with apps that have `network = "egress"` where the host cannot enforce it: refuse them, or run them with a warning in the build log.',
  ),
} satisfies SettingKeys;

/** The GPUs of this machine. */
export const GPU_KEYS = {
  gpus: setting("gpus", gpuChoice, "all").describe(
    "Which of its NVIDIA GPUs the service uses; the number or UUID of a GPU means its MIG instances, too. For tests, `fake:2xH100:80` stands for two GPUs with 80 GB each that do not exist.",
  ),
  gpuHoldMs: setting("gpu_hold", milliseconds("0s", "1h"), "10s").describe(
    "How long an app keeps its GPUs after one was granted to it, before idle replicas of it end for waiting replicas of other apps.",
  ),
  gpuSharing: setting("gpu_sharing", oneOf(["project", "all"]), "project").describe(
    "Which apps may share a GPU: those of one project, or all. The memory of a GPU is not cleared between its users, see docs/security.md.",
  ),
} satisfies SettingKeys;

/** Images that are built and run on this machine. */
export const IMAGE_KEYS = {
  containerEngine: setting("container_engine", oneOf(["auto", "podman", "docker", "none"]), "auto").describe(
    "What builds and runs the images of apps with a Dockerfile, a base image or system packages that the host lacks. `auto` is podman from 5.3.2 on if it works, else docker.",
  ),
  baseImage: setting("base_image", line(2048), "docker.io/library/python:{python}-slim-bookworm").describe(
    "The base image of apps that need system packages and name no image; `{python}` stands for their Python version.",
  ),
} satisfies SettingKeys;
