import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { parse } from "smol-toml";
import { makeZip } from "../../support/zip-maker.ts";

type Table = Readonly<Record<string, unknown>>;

/** A deploy as the official client sends it: where to, the body of the POST, and the zip. */
export type OfficialDeploy = {
  readonly route: "apps" | "partner-apps";
  readonly payload: Table;
  readonly zip: Buffer;
};

const APPS = path.join(import.meta.dirname, "apps");
const PARTNERS = ["deepgram", "rime"];

/** The names of all apps, in the folder `apps`. */
export const HOSTED_APPS: readonly string[] = readdirSync(APPS);

/** The app's folder, for a client that reads it itself. */
export function folderOf(app: string): string {
  return path.join(APPS, app);
}

/** What the official client makes of an app's folder. */
export function officialDeploy(app: string): OfficialDeploy {
  const text = readFileSync(path.join(APPS, app, "cerebrium.toml"), "utf8");
  const config = tableIn(parse(text), "cerebrium");
  const runtime = tableIn(config, "runtime");
  const partner = PARTNERS.find((name) => name in runtime);
  return {
    route: partner === undefined ? "apps" : "partner-apps",
    payload: {
      ...deploymentOf(tableIn(config, "deployment")),
      ...hardwareOf(tableIn(config, "hardware")),
      ...scalingOf(tableIn(config, "scaling")),
      ...runtimeOf(runtime, partner),
      logLevel: "INFO",
      disableBuildLogs: false,
      cliVersion: "2.1.0",
      cerebrium_toml: text,
    },
    zip: zipOf(app, config),
  };
}

/** It sends lists that nobody has set as null, and every value of a Go string as text. */
function deploymentOf(table: Table): Table {
  const { name, python_version, docker_base_image_url, disable_auth, shell_commands, pre_build_commands } =
    table;
  return given({
    name,
    pythonVersion: typeof python_version === "number" ? String(python_version) : python_version,
    baseImage: docker_base_image_url,
    disableAuth: disable_auth,
    include: table["include"] ?? ["./*", "main.py", "cerebrium.toml"],
    exclude: table["exclude"] ?? [".*"],
    shellCommands: shell_commands ?? null,
    preBuildCommands: pre_build_commands ?? null,
  });
}

function hardwareOf({ cpu, memory, compute, gpu_count, provider, region }: Table): Table {
  const isGpu = compute !== undefined && compute !== "CPU";
  return given({
    cpu,
    memory,
    compute,
    gpuCount: isGpu ? (gpu_count ?? 1) : undefined,
    provider: provider ?? "aws",
    region,
  });
}

function scalingOf({
  min_replicas,
  max_replicas,
  cooldown,
  replica_concurrency,
  compute_tier,
}: Table): Table {
  return given({
    minReplicaCount: min_replicas,
    maxReplicaCount: max_replicas,
    cooldownPeriodSeconds: cooldown,
    replicaConcurrency: replica_concurrency,
    evaluationIntervalSeconds: 30,
    loadBalancingAlgorithm: "round-robin",
    computeTier: compute_tier,
  });
}

function runtimeOf(runtime: Table, partner: string | undefined): Table {
  const containerRuntime = runtime["container_runtime"];
  if (partner !== undefined) return { runtime: partner, partnerService: partner };
  if (!("custom" in runtime)) return given({ runtime: "cortex", containerRuntime });
  const { entrypoint, port, healthcheck_endpoint, readycheck_endpoint, dockerfile_path } = tableIn(
    runtime,
    "custom",
  );
  return {
    runtime: "custom",
    // Its reader of files makes a list of one out of a text.
    entrypoint: typeof entrypoint === "string" ? [entrypoint] : (entrypoint ?? null),
    port: port ?? 8000,
    healthcheckEndpoint: healthcheck_endpoint ?? "",
    readycheckEndpoint: readycheck_endpoint ?? "",
    dockerfilePath: dockerfile_path ?? "",
  };
}

/** Generated files come first, then those of the folder. */
function zipOf(app: string, config: Table): Buffer {
  const deployment = tableIn(config, "deployment");
  const dependencies = tableIn(config, "dependencies");
  const generated = {
    "conda_pkglist.txt": packagesOf(tableIn(dependencies, "conda")),
    "pkglist.txt": packagesOf(tableIn(dependencies, "apt")),
    "pre_build_commands.sh": scriptOf(deployment["pre_build_commands"]),
    "requirements.txt": packagesOf(tableIn(dependencies, "pip")),
    "shell_commands.sh": scriptOf(deployment["shell_commands"]),
  };
  const files = readdirSync(path.join(APPS, app)).map((name) => ({
    name,
    content: readFileSync(path.join(APPS, app, name)),
  }));
  const first = Object.entries(generated).flatMap(([name, content]) =>
    content === null ? [] : [{ name, content }],
  );
  return makeZip([...first, ...files]);
}

function packagesOf(table: Table): string | null {
  const lines = Object.entries(table).map(([name, version]) =>
    ["", "*", "latest"].includes(String(version)) ? name : `${name}==${String(version)}`,
  );
  return lines.length === 0 ? null : `${lines.toSorted().join("\n")}\n`;
}

function scriptOf(commands: unknown): string | null {
  if (!Array.isArray(commands) || commands.length === 0) return null;
  return ["#!/bin/bash", "set -e", "", ...(commands as string[]), ""].join("\n");
}

function tableIn(table: Table, name: string): Table {
  return (table[name] as Table | undefined) ?? {};
}

/** The members that have a value. */
function given(table: Table): Table {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => value !== undefined));
}
