import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError } from "../../../src/config/problems.ts";
import { flagMemberOf, SETTING_KEYS } from "../../../src/config/setting-keys.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { verifies } from "../../verifies.ts";
import { GIVEN_IMAGE_BUILDS, NO_IMAGE_BUILDS, READ_IMAGE_BUILDS } from "./image-build-settings.ts";

const dir = mkdtempSync(join(tmpdir(), "millrace-settings-"));
afterAll(() => rmSync(dir, { recursive: true }));

verifies(
  [
    "start.api-url",
    "start.base-url",
    "settings.data-dir",
    "settings.shutdown-grace",
    "settings.max-runs",
    "settings.max-storage",
  ],
  "with nothing given, every setting has its default",
  () => {
    expect(readSettings({ flags: {}, env: {} })).toEqual({
      settings: {
        dataDir: resolve(".millrace"),
        host: "127.0.0.1",
        apiPort: 4000,
        basePort: 4100,
        databaseUrl: null,
        databaseDirectUrl: null,
        masterKeyFile: null,
        nodeUrl: null,
        nodePort: null,
        nodeName: null,
        nodeLabels: {},
        seatUrl: null,
        seatPort: null,
        seatServiceUrl: null,
        keepSeats: true,
        blobs: null,
        volumes: null,
        publicApiUrl: null,
        publicBaseUrl: null,
        appHosts: null,
        smtpUrl: null,
        smtpFrom: null,
        webhookAllow: [],
        isolation: "auto",
        maxScratchBytes: 10_000_000_000,
        maxProjectStorageBytes: null,
        egressOnly: false,
        egressAllow: [],
        networkDeny: [],
        networkUnenforced: "refuse",
        uidRange: { first: 1_900_000_000, last: 1_900_065_535 },
        containerEngine: "auto",
        baseImage: "docker.io/library/python:{python}-slim-bookworm",
        engine: "process",
        replicasPerSeat: 1,
        kubernetesConfig: null,
        kubernetesNamespace: null,
        kubernetesImage: null,
        kubernetesRequestFactor: 0.25,
        kubernetesBuildWaitMs: 300_000,
        kubernetesStorage: null,
        kubernetesPod: { labels: {}, annotations: {}, spec: {} },
        ...NO_IMAGE_BUILDS,
        rayAddress: null,
        rayToken: null,
        rayTokenFile: null,
        rayResources: {},
        shutdownGraceMs: 30_000,
        authGraceMs: 300_000,
        maxRuns: 10_000_000,
        maxStorageBytes: 10_000_000_000,
        maxLogBytes: 2_000_000_000,
        recordRetentionMs: 2_592_000_000,
        logRetentionMs: 2_592_000_000,
        auditRetentionMs: 31_536_000_000,
        environmentRetentionMs: 86_400_000,
        diskReserveBytes: 256_000_000,
        maxUploadBytes: 2 ** 31,
        maxAppBodyBytes: 256 * 2 ** 20,
        maxAppResultBytes: 256 * 2 ** 20,
        maxAppChunkBytes: 64 * 2 ** 20,
        maxAppTranscriptBytes: 2 ** 30,
        logLevel: "info",
        python: "python3",
        serverPorts: { first: 21_000, last: 24_999 },
        corsOrigins: ["*"],
        maxConnections: 10_000,
        maxConnectionsPerAddress: 2_000,
        trustedProxies: [],
        headerTimeoutMs: 10_000,
        bodyTimeoutMs: 60_000,
        idleTimeoutMs: 65_000,
      },
      warnings: [],
    });
  },
);

verifies(
  "settings.precedence",
  "flags win over environment, environment over file, file over default",
  () => {
    const config = file("order.toml", 'host = "file"\napi_port = 1\nbase_port = 2\npython = "file"');
    const { settings } = readSettings({
      flags: { config, host: "flag", apiPort: undefined },
      env: { MILLRACE_HOST: "env", MILLRACE_API_PORT: "3" },
    });
    expect(settings).toMatchObject({
      host: "flag",
      apiPort: 3,
      basePort: 2,
      python: "file",
      maxRuns: 10_000_000,
    });
  },
);

test("the config file is named by flag before environment before the caller", () => {
  const [one, two, three] = ["one", "two", "three"].map((name) => file(`${name}.toml`, `python = "${name}"`));
  const python = (flags: object, env: Record<string, string>): string =>
    readSettings({ flags: { ...flags }, env, configFile: three }).settings.python;
  expect(python({ config: one }, { MILLRACE_CONFIG: two! })).toBe("one");
  expect(python({}, { MILLRACE_CONFIG: two! })).toBe("two");
  expect(python({}, { MILLRACE_CONFIG: "" })).toBe("three");
});

test("each setting is read from its flag, its variable and its key", () => {
  const values: Record<string, string> = {
    data_dir: "/srv/data",
    host: "::1",
    api_port: "0",
    base_port: "0",
    database_url: "postgresql://u:p@h/db",
    database_direct_url: "postgresql://u:p@direct/db",
    master_key_file: "/run/keys/master.key",
    node_url: "https://10.0.0.5:4200",
    node_port: "4201",
    node_name: "left",
    node_labels: "zone=a,disk=fast",
    seat_url: "https://10.0.0.5:4300",
    seat_port: "4301",
    seat_service_url: "https://10.0.0.9:4300",
    keep_seats: "false",
    blobs: "/srv/blobs",
    volumes: "/srv/volumes",
    public_api_url: "https://api.example.com/",
    public_base_url: "https://base.example.com",
    app_hosts: "*.Apps.example.com",
    smtp_url: "smtps://user:p%40ss@mail.example.com",
    smtp_from: "Millrace <millrace@example.com>",
    webhook_allow: "10.0.0.0/8,::1",
    isolation: "userns",
    max_scratch: "4MB",
    max_project_storage: "5GB",
    egress_only: "true",
    egress_allow: "10.0.0.0/8,::1",
    network_deny: "192.0.2.7,::1",
    network_unenforced: "warn",
    uid_range: "400000-465535",
    container_engine: "podman",
    base_image: "debian:12",
    engine: "kubernetes",
    replicas_per_seat: "4",
    kubernetes_config: "/srv/kubeconfig",
    kubernetes_namespace: "apps",
    kubernetes_image: "registry/worker:{python}",
    kubernetes_request_factor: "0.5",
    kubernetes_build_wait: "2m",
    kubernetes_storage: "volumes",
    kubernetes_pod: '{"priorityClassName":"low","labels":{"team":"a"}}',
    ...GIVEN_IMAGE_BUILDS,
    ray_address: "http://10.0.0.5:8265/",
    ray_token: "s3cret",
    ray_token_file: "/run/keys/ray",
    ray_resources: "apps=1,ssd=0.5",
    shutdown_grace: "1m30s",
    auth_grace: "10m",
    max_runs: "5",
    max_storage: "2GiB",
    max_logs: "3MB",
    record_retention: "7d",
    log_retention: "2d",
    audit_retention: "90d",
    environment_retention: "1h",
    disk_reserve: "1GB",
    max_upload: "5MB",
    max_app_body: "6MB",
    max_app_result: "7MB",
    max_app_chunk: "8KiB",
    max_app_transcript: "9MB",
    log_level: "silent",
    python: "/usr/bin/python3.12",
    server_ports: "5000-5999",
    cors_origins: "https://a.example,http://localhost:3000",
    max_connections: "7",
    max_connections_per_address: "3",
    trusted_proxies: "10.0.0.0/8,::1",
    header_timeout: "500ms",
    body_timeout: "2m",
    idle_timeout: "5s",
  };
  const names = Object.values(SETTING_KEYS).map(({ name }) => name);
  expect(Object.keys(values)).toEqual(names);
  const expected = {
    dataDir: "/srv/data",
    host: "::1",
    apiPort: 0,
    basePort: 0,
    databaseUrl: "postgresql://u:p@h/db",
    databaseDirectUrl: "postgresql://u:p@direct/db",
    masterKeyFile: "/run/keys/master.key",
    nodeUrl: "https://10.0.0.5:4200",
    nodePort: 4201,
    nodeName: "left",
    nodeLabels: { zone: "a", disk: "fast" },
    seatUrl: "https://10.0.0.5:4300",
    seatPort: 4301,
    seatServiceUrl: "https://10.0.0.9:4300",
    keepSeats: false,
    blobs: { kind: "directory", path: "/srv/blobs" },
    volumes: "/srv/volumes",
    publicApiUrl: "https://api.example.com",
    publicBaseUrl: "https://base.example.com",
    appHosts: "apps.example.com",
    smtpUrl: "smtps://user:p%40ss@mail.example.com",
    smtpFrom: "Millrace <millrace@example.com>",
    webhookAllow: ["10.0.0.0/8", "::1/128"],
    isolation: "userns",
    maxScratchBytes: 4_000_000,
    maxProjectStorageBytes: 5_000_000_000,
    egressOnly: true,
    egressAllow: ["10.0.0.0/8", "::1/128"],
    networkDeny: ["192.0.2.7/32", "::1/128"],
    networkUnenforced: "warn",
    uidRange: { first: 400_000, last: 465_535 },
    containerEngine: "podman",
    baseImage: "debian:12",
    engine: "kubernetes",
    replicasPerSeat: 4,
    kubernetesConfig: "/srv/kubeconfig",
    kubernetesNamespace: "apps",
    kubernetesImage: "registry/worker:{python}",
    kubernetesRequestFactor: 0.5,
    kubernetesBuildWaitMs: 120_000,
    kubernetesStorage: "volumes",
    kubernetesPod: { labels: { team: "a" }, annotations: {}, spec: { priorityClassName: "low" } },
    ...READ_IMAGE_BUILDS,
    rayAddress: "http://10.0.0.5:8265",
    rayToken: "s3cret",
    rayTokenFile: "/run/keys/ray",
    rayResources: { apps: 1, ssd: 0.5 },
    shutdownGraceMs: 90_000,
    authGraceMs: 600_000,
    maxRuns: 5,
    maxStorageBytes: 2 ** 31,
    maxLogBytes: 3_000_000,
    recordRetentionMs: 604_800_000,
    logRetentionMs: 172_800_000,
    auditRetentionMs: 7_776_000_000,
    environmentRetentionMs: 3_600_000,
    diskReserveBytes: 1_000_000_000,
    maxUploadBytes: 5_000_000,
    maxAppBodyBytes: 6_000_000,
    maxAppResultBytes: 7_000_000,
    maxAppChunkBytes: 8192,
    maxAppTranscriptBytes: 9_000_000,
    logLevel: "silent",
    python: "/usr/bin/python3.12",
    serverPorts: { first: 5000, last: 5999 },
    corsOrigins: ["https://a.example", "http://localhost:3000"],
    maxConnections: 7,
    maxConnectionsPerAddress: 3,
    trustedProxies: ["10.0.0.0/8", "::1/128"],
    headerTimeoutMs: 500,
    bodyTimeoutMs: 120_000,
    idleTimeoutMs: 5_000,
  };
  const flags = Object.fromEntries(names.map((name) => [flagMemberOf(name), values[name]]));
  const env = Object.fromEntries(names.map((name) => [`MILLRACE_${name.toUpperCase()}`, values[name]]));
  const lines = names.map((name) => {
    const list = /_(labels|allow|deny|origins|proxies|resources)$/.test(name);
    const raw = /^([\d.]+|true|false)$/.test(values[name]!) ? values[name] : JSON.stringify(values[name]);
    return `${name} = ${list ? JSON.stringify(values[name]!.split(",")) : raw}`;
  });
  for (const source of [{ flags }, { env }, { flags: { config: file("all.toml", lines.join("\n")) } }])
    expect(readSettings({ flags: {}, env: {}, ...source })).toEqual({ settings: expected, warnings: [] });
});

verifies(
  "settings.all-problems",
  "all problems of all sources are reported at once, by the name the source uses",
  () => {
    const config = file("bad.toml", "max_runs = 1.5\nlog_level = 5\npython = [1]");
    expect(
      problemsOf({
        flags: { config, apiPort: "70000" },
        env: {
          MILLRACE_SHUTDOWN_GRACE: "2 days",
          MILLRACE_WEBHOOK_ALLOW: "10.0.0.0/33",
          MILLRACE_HOST: "300.1.1.1",
        },
      }),
    ).toEqual([
      'MILLRACE_HOST must be an IP address or a host name, got "300.1.1.1"',
      "--api-port must be a whole number from 0 to 65535, got 70000",
      'MILLRACE_WEBHOOK_ALLOW must be a list of address ranges such as 10.0.0.0/8 or fd00::/8, got ["10.0.0.0/33"]',
      'MILLRACE_SHUTDOWN_GRACE must be a duration from 0s to 1h, got "2 days"',
      "max_runs must be a whole number from 1 to 1000000000, got 1.5",
      'log_level must be one of "trace", "debug", "info", "warn", "error", "fatal", "silent", got 5',
      "python must be text of 1 to 4096 characters on one line, got [1]",
    ]);
  },
);

test("unknown variables of ours and unknown keys are warnings with the nearest known name", () => {
  const config = file("unknown.toml", "api_prot = 1\nsomething_else = 2");
  const env = { MILLRACE_DATADIR: "/x", MILLRACE_CONFG: "y", MILLRACE_Q: "1", OTHER: "z", PATH: "/bin" };
  expect(readSettings({ flags: { config, json: true }, env }).warnings).toEqual([
    "MILLRACE_DATADIR is not a known key; did you mean MILLRACE_DATA_DIR?",
    "MILLRACE_CONFG is not a known key; did you mean MILLRACE_CONFIG?",
    "MILLRACE_Q is not a known key",
    "api_prot is not a known key; did you mean api_port?",
    "something_else is not a known key",
  ]);
});

function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

function problemsOf(sources: Parameters<typeof readSettings>[0]): readonly string[] {
  try {
    readSettings(sources);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the settings were accepted");
}
