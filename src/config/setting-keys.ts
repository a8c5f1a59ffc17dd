import { isAbsolute, resolve } from "node:path";
import { ADDRESS_KEYS } from "./address-keys.ts";
import type { AddressSettings } from "./address-keys.ts";
import { blobAddress } from "./blob-address.ts";
import type { BlobAddress } from "./blob-address.ts";
import { readSender } from "../kit/smtp.ts";
import { cidr, integer, line, listOf, mapped, matching, oneOf, optional, size } from "./readers.ts";
import { ENGINE_KEYS } from "./engine-keys.ts";
import type { EngineSettings } from "./engine-keys.ts";
import { NODE_KEYS } from "./node-keys.ts";
import type { NodeSettings } from "./node-keys.ts";
import type { SettingKey } from "./setting-key.ts";
import {
  age,
  databaseUrl,
  hostName,
  milliseconds,
  origin,
  port,
  portRange,
  smtpUrl,
} from "./setting-readers.ts";
import type { PortRange } from "./setting-readers.ts";
import { WALL_KEYS } from "./wall-keys.ts";
import type { WallSettings } from "./wall-keys.ts";

/** How the service runs, every default filled in. */
export type Settings = AddressSettings &
  EngineSettings &
  NodeSettings &
  WallSettings & {
    /** Absolute. */
    readonly dataDir: string;
    readonly host: string;
    /** 0 means any free port, here and below. */
    readonly apiPort: number;
    readonly basePort: number;
    /** Null means SQLite in the data directory. */
    readonly databaseUrl: string | null;
    /** Null means the same as `databaseUrl`. */
    readonly databaseDirectUrl: string | null;
    /** Null means a folder of the data directory. */
    readonly blobs: BlobAddress | null;
    /** Null means beside the blobs if those have a directory, else in the data directory. */
    readonly volumes: string | null;
    /** Null means that no mail is sent, here and below. */
    readonly smtpUrl: string | null;
    readonly smtpFrom: string | null;
    /** CIDRs, every one with its prefix length. */
    readonly webhookAllow: readonly string[];
    readonly shutdownGraceMs: number;
    readonly authGraceMs: number;
    readonly maxRuns: number;
    readonly maxStorageBytes: number;
    readonly maxLogBytes: number;
    readonly recordRetentionMs: number;
    readonly logRetentionMs: number;
    readonly auditRetentionMs: number;
    readonly environmentRetentionMs: number;
    readonly diskReserveBytes: number;
    readonly maxUploadBytes: number;
    readonly maxAppBodyBytes: number;
    readonly maxAppResultBytes: number;
    readonly maxAppChunkBytes: number;
    readonly maxAppTranscriptBytes: number;
    readonly logLevel: LogLevel;
    readonly python: string;
    readonly serverPorts: PortRange;
    readonly corsOrigins: readonly string[];
    readonly maxConnections: number;
    readonly maxConnectionsPerAddress: number;
    /** CIDRs, every one with its prefix length. */
    readonly trustedProxies: readonly string[];
    readonly headerTimeoutMs: number;
    readonly bodyTimeoutMs: number;
    readonly idleTimeoutMs: number;
  };

/** From the most talkative to none. */
const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** One of the log levels. */
type LogLevel = (typeof LOG_LEVELS)[number];

/** Every setting, once. Flags, environment, file and documentation all follow from these rows. */
export const SETTING_KEYS: { readonly [K in keyof Settings]: SettingKey<Settings[K]> } = {
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
    reader: port(),
    default: "4000",
    meaning: "Port of the app endpoints; 0 picks a free one.",
  },
  basePort: {
    name: "base_port",
    reader: port(),
    default: "4100",
    meaning: "Port of the management API and the dashboard; 0 picks a free one.",
  },
  databaseUrl: {
    name: "database_url",
    reader: optional(databaseUrl),
    default: null,
    meaning:
      "Postgres to use instead of SQLite in the data directory. If it names several hosts, the one that takes writes is used.",
  },
  databaseDirectUrl: {
    name: "database_direct_url",
    reader: optional(databaseUrl),
    default: null,
    meaning:
      "If database_url leads through a pooler: the same database without it, for migrations and to hear of changes by other services.",
  },
  ...NODE_KEYS,
  blobs: {
    name: "blobs",
    reader: optional(blobAddress),
    default: null,
    meaning:
      "Where services that share a Postgres keep bundles, environments and large payloads: a directory they all see, or s3://bucket/prefix with the options endpoint, region and path_style. If unset, `blobs` in the data directory.",
  },
  volumes: {
    name: "volumes",
    reader: optional(matching("a whole path", (text) => isAbsolute(text) && text.length <= 4096)),
    default: null,
    meaning:
      "Where the volumes of projects are, on a file system that all services of the installation see. If unset, below `blobs` if that is a directory, else in the data directory.",
  },
  ...ADDRESS_KEYS,
  smtpUrl: {
    name: "smtp_url",
    reader: optional(smtpUrl),
    default: null,
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
    default: null,
    meaning: "The sender of those mails; required with smtp_url.",
  },
  webhookAllow: {
    name: "webhook_allow",
    reader: listOf("a list of address ranges such as 10.0.0.0/8 or fd00::/8", cidr(), 1000),
    default: "",
    meaning: "Private address ranges that webhooks may reach.",
  },
  ...WALL_KEYS,
  ...ENGINE_KEYS,
  shutdownGraceMs: {
    name: "shutdown_grace",
    reader: milliseconds("0s", "1h"),
    default: "30s",
    meaning: "How long an orderly stop waits for runs in progress.",
  },
  authGraceMs: {
    name: "auth_grace",
    reader: milliseconds("0s", "24h"),
    default: "5m",
    meaning: "How long a token that was checked before is accepted while the database cannot be reached.",
  },
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
  recordRetentionMs: {
    name: "record_retention",
    reader: age("1h"),
    default: "30d",
    meaning: "How long records of runs and of finished deliveries are kept.",
  },
  logRetentionMs: {
    name: "log_retention",
    reader: age("1h"),
    default: "30d",
    meaning: "How long log lines of apps are kept.",
  },
  auditRetentionMs: {
    name: "audit_retention",
    reader: age("1d"),
    default: "365d",
    meaning: "How long entries of the audit log are kept.",
  },
  environmentRetentionMs: {
    name: "environment_retention",
    reader: age("0s"),
    default: "24h",
    meaning: "How long to keep an environment that no version uses; the next deploy may need it.",
  },
  diskReserveBytes: {
    name: "disk_reserve",
    reader: size("0B", "1000TB"),
    default: "256MB",
    meaning:
      "Free space to keep on the data directory's disk. Below it, async runs, deploys, uploads and log lines are refused, and plain calls are answered but only their record is stored.",
  },
  maxUploadBytes: {
    name: "max_upload",
    reader: size("1MB", "1000TB"),
    default: "2GiB",
    meaning: "The largest zip that can be uploaded for a deploy.",
  },
  maxAppBodyBytes: {
    name: "max_app_body",
    reader: size("1KiB", "1GiB"),
    default: "256MiB",
    meaning: "The highest limits.max_body an app may set.",
  },
  maxAppResultBytes: {
    name: "max_app_result",
    reader: size("1KiB", "1GiB"),
    default: "256MiB",
    meaning: "The highest limits.max_result an app may set.",
  },
  maxAppChunkBytes: {
    name: "max_app_chunk",
    reader: size("1KiB", "256MiB"),
    default: "64MiB",
    meaning: "The highest limits.max_chunk an app may set.",
  },
  maxAppTranscriptBytes: {
    name: "max_app_transcript",
    reader: size("1KiB", "4GiB"),
    default: "1GiB",
    meaning: "The highest limits.max_transcript an app may set.",
  },
  logLevel: {
    name: "log_level",
    reader: oneOf(LOG_LEVELS),
    default: "info",
    meaning: "The lowest level that is logged.",
  },
  python: {
    name: "python",
    reader: line(4096),
    default: "python3",
    meaning: "The interpreter for apps: a path, or a name on the PATH.",
  },
  serverPorts: {
    name: "server_ports",
    reader: portRange,
    default: "21000-24999",
    meaning: "Ports of this machine for apps that are servers of their own; each replica gets one.",
  },
  corsOrigins: {
    name: "cors_origins",
    reader: listOf('a list of origins such as https://example.com, or "*"', origin, 1000),
    default: "*",
    meaning: "Origins whose pages may call the app endpoints.",
  },
  maxConnections: {
    name: "max_connections",
    reader: integer(1, 1_000_000),
    default: "10000",
    meaning:
      "Open connections for calls; fewer if the limit on open files is too low. The management API may hold as many, and at most an eighth of what that limit allows.",
  },
  maxConnectionsPerAddress: {
    name: "max_connections_per_address",
    reader: integer(1, 1_000_000),
    default: "2000",
    meaning: "Connections from one address that have sent no token; at most half of `max_connections`.",
  },
  trustedProxies: {
    name: "trusted_proxies",
    reader: listOf("a list of address ranges such as 10.0.0.0/8 or fd00::/8", cidr(), 1000),
    default: "",
    meaning:
      "Proxies whose X-Forwarded-For header is trusted; the address they forward counts instead of their own.",
  },
  headerTimeoutMs: {
    name: "header_timeout",
    reader: milliseconds("100ms", "1h"),
    default: "10s",
    meaning: "How long a request's headers may take to arrive, counted from when the connection opened.",
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
    meaning: "How long a connection may stay open without a request, or with an answer nobody reads.",
  },
};

/** What the name of every environment variable of ours begins with. */
export const ENV_PREFIX = "MILLRACE_";

/** `data_dir` → `--data-dir`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll("_", "-")}`;
}

/** `data_dir` → `MILLRACE_DATA_DIR`. */
export function envOf(name: string): string {
  return ENV_PREFIX + name.toUpperCase();
}

/** `data_dir` → `dataDir`, the member a command-line parser makes of the flag. */
export function flagMemberOf(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
