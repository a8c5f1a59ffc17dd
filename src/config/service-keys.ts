import { isIP } from "node:net";
import { resolve } from "node:path";
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
  size,
} from "./readers.ts";
import type { Reader, SettingKeys } from "./readers.ts";

/** User and group ids, both ends included. */
export type UidRange = { readonly first: number; readonly last: number };

/** A duration in milliseconds. */
const milliseconds = (min: string, max: string): Reader<number> =>
  mapped(duration(min, max), (seconds) => Math.round(seconds * 1000));

/** 0 means any free port. */
const port = integer(0, 65_535);

/** An address that a listener can bind to. */
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

/** May contain a password. */
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
  dataDir: {
    name: "data_dir",
    reader: mapped(line(4096), (path) => resolve(path)),
    default: "./.millrace",
    meaning: "Where the service keeps its data; relative to the working directory.",
  },
  host: {
    name: "host",
    reader: hostName,
    default: "127.0.0.1",
    meaning: "The address both listeners bind to.",
  },
  apiPort: {
    name: "api_port",
    reader: port,
    default: "4000",
    meaning: "Port of the app endpoints; 0 picks a free one.",
  },
  basePort: {
    name: "base_port",
    reader: port,
    default: "4100",
    meaning: "Port of the management API and the dashboard; 0 picks a free one.",
  },
  publicApiUrl: {
    name: "public_api_url",
    reader: optional(publicUrl()),
    meaning: "Address of the app endpoints as callers see it. If unset, links use the request's Host.",
  },
  publicBaseUrl: {
    name: "public_base_url",
    reader: optional(publicUrl()),
    meaning: "Address of the management API as callers see it. If unset, links use the request's Host.",
  },
  appHosts: {
    name: "app_hosts",
    reader: optional(wildcard),
    meaning:
      "Gives each app an origin of its own: the app endpoints also serve it at the root of {app}--{project}.apps.example.com. If unset, all apps share one origin.",
  },
  python: {
    name: "python",
    reader: line(4096),
    default: "python3",
    meaning: "The interpreter for apps: a path, or a name on the PATH.",
  },
  logLevel: {
    name: "log_level",
    reader: oneOf(["trace", "debug", "info", "warn", "error", "fatal", "silent"]),
    default: "info",
    meaning: "The lowest level that is logged.",
  },
  shutdownGraceMs: {
    name: "shutdown_grace",
    reader: milliseconds("0s", "1h"),
    default: "30s",
    meaning: "How long an orderly stop waits for runs in progress.",
  },
  trustedProxies: {
    name: "trusted_proxies",
    reader: ranges,
    default: "",
    meaning:
      "Proxies whose X-Forwarded-For header is trusted; the address they forward counts instead of their own.",
  },
  corsOrigins: {
    name: "cors_origins",
    reader: listOf('a list of origins such as https://example.com, or "*"', origin, 1000),
    default: "*",
    meaning: "Origins whose pages may call the app endpoints.",
  },
  webhookAllow: {
    name: "webhook_allow",
    reader: ranges,
    default: "",
    meaning: "Private address ranges that webhooks may reach.",
  },
  smtpUrl: {
    name: "smtp_url",
    reader: optional(smtpUrl),
    meaning:
      "Mail server for invitations, address verification and password resets. If unset, no mail is sent.",
  },
  smtpFrom: {
    name: "smtp_from",
    reader: optional(
      matching("an address such as millrace@example.com or Millrace <millrace@example.com>", (text) => {
        return readSender(text) !== null;
      }),
    ),
    meaning: "The sender of those mails; required with smtp_url.",
  },
} satisfies SettingKeys;

/** How much is kept, and how much callers may take. */
export const LIMIT_KEYS = {
  maxRuns: {
    name: "max_runs",
    reader: integer(1, 1_000_000_000),
    default: "10000000",
    meaning: "How many run records to keep; beyond that, the oldest finished ones are removed first.",
  },
  maxStorageBytes: {
    name: "max_storage",
    reader: size("1MB", "1000TB"),
    default: "10GB",
    meaning:
      "How much space inputs, results and transcripts may take; beyond that, those of the oldest finished runs are removed first.",
  },
  maxLogBytes: {
    name: "max_logs",
    reader: size("1MB", "1000TB"),
    default: "2GB",
    meaning:
      "How much space the log lines of all apps may take; beyond that, the oldest lines of the app with the most are removed.",
  },
  maxProjectStorageBytes: {
    name: "max_project_storage",
    reader: optional(size("1MB", "1000TB")),
    meaning:
      "How much space the persistent storage of a project may take; beyond that, its replicas are ended, and none starts until files are removed. If unset, there is no quota.",
  },
  maxScratchBytes: {
    name: "max_scratch",
    reader: size("1MB", "1000TB"),
    default: "10GB",
    meaning:
      "How much space the temporary files of a template and its replicas may take, where apps are isolated. Beyond that, they are ended.",
  },
  diskReserveBytes: {
    name: "disk_reserve",
    reader: size("0B", "1000TB"),
    default: "256MB",
    meaning:
      "Free space to keep on the data directory's disk. Below it, async runs, deploys, uploads and log lines are refused, and plain calls are answered but only their record is stored.",
  },
  recordRetentionMs: {
    name: "record_retention",
    reader: milliseconds("1h", "3650d"),
    default: "30d",
    meaning: "How long records of runs and of finished deliveries, and log lines of apps, are kept.",
  },
  auditRetentionMs: {
    name: "audit_retention",
    reader: milliseconds("1d", "3650d"),
    default: "365d",
    meaning: "How long entries of the audit log are kept.",
  },
  maxConnections: {
    name: "max_connections",
    reader: integer(1, 1_000_000),
    default: "10000",
    meaning:
      "Open connections for calls; fewer if the limit on open files is too low. The management API may hold as many, and at most an eighth of what that limit allows. One address that has sent no token gets at most 2000 or a fifth of them, and never more than half.",
  },
  bodyTimeoutMs: {
    name: "body_timeout",
    reader: milliseconds("100ms", "12h"),
    default: "60s",
    meaning: "How long a whole request may take to arrive; for an upload, how long it may stall.",
  },
  idleTimeoutMs: {
    name: "idle_timeout",
    reader: milliseconds("100ms", "1h"),
    default: "65s",
    meaning:
      "How long a connection may stay open without a request, or with a response that the caller does not read.",
  },
} satisfies SettingKeys;

/** What separates apps from the rest of the machine and network. */
export const WALL_KEYS = {
  isolation: {
    name: "isolation",
    reader: oneOf(["auto", "none", "process", "landlock", "userns", "uid"]),
    default: "auto",
    meaning:
      "Isolation of apps and builds. `auto` is the strongest level that the host supports; a named level is the weakest to accept: the service does not start with less.",
  },
  uidRange: {
    name: "uid_range",
    reader: uidRange,
    default: "1900000000-1900065535",
    meaning: "User and group ids that are unused on the machine: on `uid`, each project gets one of them.",
  },
  egressOnly: {
    name: "egress_only",
    reader: boolean(),
    default: "false",
    meaning: 'Treats `network = true` of every app as "egress".',
  },
  egressAllow: {
    name: "egress_allow",
    reader: ranges,
    default: "",
    meaning: 'Private address ranges that apps with `network = "egress"` may connect to.',
  },
  networkDeny: {
    name: "network_deny",
    reader: ranges,
    default: "",
    meaning: "Address ranges that no app may connect to, besides the metadata services of clouds.",
  },
  networkUnenforced: {
    name: "network_unenforced",
    reader: oneOf(["refuse", "warn"]),
    default: "refuse",
    meaning:
      'What to do with apps that have `network = "egress"` where the host cannot enforce it: refuse them, or run them with a warning in the build log.',
  },
} satisfies SettingKeys;

/** Images that are built and run on this machine. */
export const IMAGE_KEYS = {
  containerEngine: {
    name: "container_engine",
    reader: oneOf(["auto", "podman", "docker", "none"]),
    default: "auto",
    meaning:
      "What builds and runs the images of apps with a Dockerfile, a base image or system packages that the host lacks. `auto` is podman from 5.3.2 on if it works, else docker.",
  },
  baseImage: {
    name: "base_image",
    reader: line(2048),
    default: "docker.io/library/python:{python}-slim-bookworm",
    meaning:
      "The base image of apps that need system packages and name no image; `{python}` stands for their Python version.",
  },
} satisfies SettingKeys;
