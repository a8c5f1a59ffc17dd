import * as fc from "fast-check";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { ConfigError } from "../../../src/config/problems.ts";
import {
  DROPPED,
  envOf,
  flagMemberOf,
  flagOf,
  INTERNALS,
  SETTING_GROUPS,
  SETTING_KEYS,
} from "../../../src/config/setting-keys.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { verifies } from "../../verifies.ts";
import { WALL_KEYS } from "../../../src/config/service-keys.ts";

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
        ...INTERNALS,
        traces: null,
        metricExport: null,
        dataDir: resolve(".millrace"),
        host: "127.0.0.1",
        apiPort: 4000,
        basePort: 4100,
        databaseUrl: null,
        databaseDirectUrl: null,
        masterKeyFile: null,
        nodeUrl: null,
        seatUrl: null,
        seatServiceUrl: null,
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
        gpus: { kind: "all" },
        gpuHoldMs: 10_000,
        gpuSharing: "project",
        containerEngine: "auto",
        baseImage: "docker.io/library/python:{python}-slim-bookworm",
        engine: "process",
        replicasPerSeat: 1,
        kubernetesConfig: null,
        kubernetesNamespace: null,
        kubernetesImage: null,
        kubernetesStorage: null,
        kubernetesPod: { labels: {}, annotations: {}, spec: {} },
        registry: null,
        registrySecret: null,
        buildkitNamespace: null,
        rayAddress: null,
        rayTokenFile: null,
        rayResources: {},
        shutdownGraceMs: 30_000,
        maxRuns: 10_000_000,
        maxStorageBytes: 10_000_000_000,
        maxLogBytes: 2_000_000_000,
        recordRetentionMs: 2_592_000_000,
        auditRetentionMs: 31_536_000_000,
        diskReserveBytes: 256_000_000,
        logLevel: "info",
        python: "python3",
        corsOrigins: ["*"],
        maxConnections: 10_000,
        trustedProxies: [],
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

test("the config file is named by flag before environment", () => {
  const [one, two] = ["one", "two"].map((name) => file(`${name}.toml`, `python = "${name}"`));
  const python = (flags: object, env: Record<string, string>): string =>
    readSettings({ flags: { ...flags }, env }).settings.python;
  expect(python({ config: one }, { MILLRACE_CONFIG: two! })).toBe("one");
  expect(python({}, { MILLRACE_CONFIG: two! })).toBe("two");
  expect(python({}, { MILLRACE_CONFIG: "" })).toBe("python3");
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
    seat_url: "https://10.0.0.5:4300",
    seat_service_url: "https://10.0.0.9:4300",
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
    gpus: "0,1",
    gpu_hold: "3s",
    gpu_sharing: "all",
    container_engine: "podman",
    base_image: "debian:12",
    engine: "kubernetes",
    replicas_per_seat: "4",
    kubernetes_config: "/srv/kubeconfig",
    kubernetes_namespace: "apps",
    kubernetes_image: "registry/worker:{python}",
    kubernetes_storage: "volumes",
    kubernetes_pod: '{"priorityClassName":"low","labels":{"team":"a"}}',
    registry: "registry.internal:5000/millrace",
    registry_secret: "registry-login",
    buildkit_namespace: "images",
    ray_address: "http://10.0.0.5:8265/",
    ray_token_file: "/run/keys/ray",
    ray_resources: "apps=1,ssd=0.5",
    shutdown_grace: "1m30s",
    max_runs: "5",
    max_storage: "2GiB",
    max_logs: "3MB",
    record_retention: "7d",
    audit_retention: "90d",
    disk_reserve: "1GB",
    log_level: "silent",
    python: "/usr/bin/python3.12",
    cors_origins: "https://a.example,http://localhost:3000",
    max_connections: "7",
    trusted_proxies: "10.0.0.0/8,::1",
    body_timeout: "2m",
    idle_timeout: "5s",
  };
  const names = Object.values(SETTING_KEYS).map(({ name }) => name);
  expect(Object.keys(values).toSorted()).toEqual(names.toSorted());
  const expected = {
    ...INTERNALS,
    traces: null,
    metricExport: null,
    dataDir: "/srv/data",
    host: "::1",
    apiPort: 0,
    basePort: 0,
    databaseUrl: "postgresql://u:p@h/db",
    databaseDirectUrl: "postgresql://u:p@direct/db",
    masterKeyFile: "/run/keys/master.key",
    nodeUrl: "https://10.0.0.5:4200",
    seatUrl: "https://10.0.0.5:4300",
    seatServiceUrl: "https://10.0.0.9:4300",
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
    gpus: { kind: "some", names: ["0", "1"] },
    gpuHoldMs: 3_000,
    gpuSharing: "all",
    containerEngine: "podman",
    baseImage: "debian:12",
    engine: "kubernetes",
    replicasPerSeat: 4,
    kubernetesConfig: "/srv/kubeconfig",
    kubernetesNamespace: "apps",
    kubernetesImage: "registry/worker:{python}",
    kubernetesStorage: "volumes",
    kubernetesPod: { labels: { team: "a" }, annotations: {}, spec: { priorityClassName: "low" } },
    registry: "registry.internal:5000/millrace",
    registrySecret: "registry-login",
    buildkitNamespace: "images",
    rayAddress: "http://10.0.0.5:8265",
    rayTokenFile: "/run/keys/ray",
    rayResources: { apps: 1, ssd: 0.5 },
    shutdownGraceMs: 90_000,
    maxRuns: 5,
    maxStorageBytes: 2 ** 31,
    maxLogBytes: 3_000_000,
    recordRetentionMs: 604_800_000,
    auditRetentionMs: 7_776_000_000,
    diskReserveBytes: 1_000_000_000,
    logLevel: "silent",
    python: "/usr/bin/python3.12",
    corsOrigins: ["https://a.example", "http://localhost:3000"],
    maxConnections: 7,
    trustedProxies: ["10.0.0.0/8", "::1/128"],
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
      "python must be text of 1 to 4096 characters on one line, got [1]",
      'log_level must be one of "trace", "debug", "info", "warn", "error", "fatal", "silent", got 5',
      'MILLRACE_SHUTDOWN_GRACE must be a duration from 0s to 1h, got "2 days"',
      'MILLRACE_WEBHOOK_ALLOW must be a list of address ranges such as 10.0.0.0/8 or fd00::/8, got ["10.0.0.0/33"]',
      "max_runs must be a whole number from 1 to 1000000000, got 1.5",
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

verifies("settings.dropped", "a setting of an earlier release is refused, with what to do instead", () => {
  for (const [name, instead] of Object.entries(DROPPED)) {
    const config = file("dropped.toml", `${name} = 1`);
    const refused = (as: string): string[] => [`${as} is no longer a setting: ${instead}`];
    expect(problemsOf({ flags: {}, env: { [envOf(name)]: "1" } })).toEqual(refused(envOf(name)));
    expect(problemsOf({ flags: { [flagMemberOf(name)]: "1" }, env: {} })).toEqual(refused(flagOf(name)));
    expect(problemsOf({ flags: { config }, env: {} })).toEqual(refused(name));
    expect(readSettings({ flags: {}, env: { [envOf(name)]: "" } }).warnings).toEqual([]);
  }
});

verifies("settings.few", "there are at most 58 settings, each in one group", () => {
  const grouped = Object.values(SETTING_GROUPS).flatMap((keys) => Object.keys(keys));
  expect(grouped.toSorted()).toEqual(Object.keys(SETTING_KEYS).toSorted());
  expect(grouped.length).toBeLessThanOrEqual(58);
  for (const { name } of Object.values(SETTING_KEYS)) expect(Object.keys(DROPPED)).not.toContain(name);
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

verifies(
  "settings.isolation",
  "isolation is auto by default and takes each of its levels and no other",
  () => {
    expect(readSettings({ flags: {}, env: {} }).settings.isolation).toBe("auto");
    for (const level of ["auto", "none", "process", "landlock", "userns", "uid"]) {
      expect(readSettings({ flags: {}, env: { MILLRACE_ISOLATION: level } }).settings.isolation).toBe(level);
    }
    for (const level of ["Auto", "docker", "uid,userns"])
      expect(refused("MILLRACE_ISOLATION", level)).toBe(true);
  },
);

verifies("settings.webhook-allow", "webhook_allow takes a list of CIDRs and refuses anything else", () => {
  const allowed = (text: string): readonly string[] =>
    readSettings({ flags: {}, env: { MILLRACE_WEBHOOK_ALLOW: text } }).settings.webhookAllow;
  expect(allowed("")).toEqual([]);
  expect(allowed("10.0.0.0/8, fd00::/8,127.0.0.1")).toEqual(["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"]);
  for (const text of ["10.0.0.0/33", "10.0.0.0/8,example.com", "all", "10.0.0.0-10.0.0.9"]) {
    expect(refused("MILLRACE_WEBHOOK_ALLOW", text)).toBe(true);
  }
});

test("a command's own default yields to a flag, a variable and a file alike", () => {
  const dir = mkdtempSync(join(tmpdir(), "millrace-settings-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const config = join(dir, "millrace.toml");
  writeFileSync(config, 'log_level = "info"');
  const level = (flags: object, env: Record<string, string>): string =>
    readSettings({ flags: { ...flags }, env, defaults: { log_level: "warn" } }).settings.logLevel;
  expect(level({}, {})).toBe("warn");
  expect(level({ config }, {})).toBe("info");
  expect(level({}, { MILLRACE_LOG_LEVEL: "debug" })).toBe("debug");
  expect(level({ logLevel: "error" }, { MILLRACE_LOG_LEVEL: "debug" })).toBe("error");
});

function refused(name: string, value: string): boolean {
  try {
    readSettings({ flags: {}, env: { [name]: value } });
    return false;
  } catch (error) {
    return error instanceof ConfigError && error.problems.every((problem) => problem.startsWith(name));
  }
}

test("an empty variable counts as unset", () => {
  expect(readSettings({ flags: {}, env: { MILLRACE_API_PORT: "", MILLRACE_DATABASE_URL: "" } })).toEqual(
    readSettings({ flags: {}, env: {} }),
  );
});

test("a range of ids is two numbers, the lower one first, above those of the system", () => {
  const { read } = WALL_KEYS.uidRange.reader;
  expect(read("400000-465535")).toEqual({ first: 400_000, last: 465_535 });
  expect(read("1000-1000")).toEqual({ first: 1000, last: 1000 });
  const wrong = [
    "",
    "5",
    "1000",
    "999-2000",
    "2000-1000",
    "1000-4294967295",
    "1e3-2000",
    "1000 - 2000",
    "a-b",
  ];
  for (const text of wrong) expect([text, read(text)]).toEqual([text, undefined]);
});

/** Lone surrogates and control characters too. */
const anyText = fc.array(fc.nat(0xffff), { maxLength: 12 }).map((units) => String.fromCharCode(...units));

test("whatever flags and environment hold, the answer is settings or a ConfigError", () => {
  const names = Object.values(SETTING_KEYS).map(({ name }) => name);
  const text = fc.oneof(anyText, fc.constantFrom("1", "0", "-1", "1e99", "NaN", "10GB", "::1", "*"));
  const some = (rename: (name: string) => string): fc.Arbitrary<Record<string, string>> =>
    fc.dictionary(fc.constantFrom(...names).map(rename), text);
  fc.assert(
    fc.property(
      some(flagMemberOf),
      some((name) => `MILLRACE_${name.toUpperCase()}`),
      (flags, env) => {
        try {
          return !Object.values(readSettings({ flags, env }).settings).includes(undefined as never);
        } catch (error) {
          if (error instanceof ConfigError) return error.problems.length > 0;
          throw error;
        }
      },
    ),
    { numRuns: 300 },
  );
});
