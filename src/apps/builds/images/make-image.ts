import path from "node:path";
import { mkdir, readFile, realpath, writeFile } from "../../../kit/files.ts";
import { totalmem } from "node:os";
import { pathToFileURL } from "node:url";
import {
  ENVIRONMENT_LABEL,
  PROJECT_LABEL,
  ulimits,
  writeImageRecord,
} from "../../../host/containers/containers.ts";
import type { Containers } from "../../../host/containers/containers.ts";
import type { ContainerTool } from "../../../host/containers/container-tool.ts";
import { runProgram } from "../../../engines/programs/run-program.ts";
import { BuildError, type BuildSite } from "../site.ts";
import { readBundleText } from "../bundle-files.ts";
import type { BuildCommand, BuildSteps, BuildTarget, CommandKind, PreparedBuild } from "../commands.ts";
import { checkSyntaxForImage } from "../compile-bundle.ts";
import { ownStandIn } from "../environments.ts";
import { MissingTools } from "../missing-tools.ts";
import { readPipSettings } from "../pip-settings.ts";
import type { Requirements } from "../requirements.ts";
import { dockerfileFor, IMAGE_PYTHON } from "./dockerfile.ts";
import { type ImageWish, warnOfIgnored } from "./wanted-image.ts";

/** Podman's conditions for taking an image: for each kind of place, or for all others. */
type Policy = {
  readonly default: readonly unknown[];
  readonly transports?: Readonly<Record<string, Readonly<Record<string, readonly unknown[]>>>>;
};

const ANY: Policy = { default: [{ type: "insecureAcceptAnything" }] };

/** The host's policy, registries alone: `FROM tarball:/…` reads the host, `FROM containers-storage:…` other projects' images. */
export async function registriesOnly(host: NodeJS.ProcessEnv): Promise<Policy> {
  const policy = await hostPolicy(host);
  const { docker = {} } = policy.transports ?? {};
  return { default: [{ type: "reject" }], transports: { docker: { "": policy.default, ...docker } } };
}

async function hostPolicy({ HOME: home = "/" }: NodeJS.ProcessEnv): Promise<Policy> {
  for (const place of [path.join(home, ".config/containers/policy.json"), "/etc/containers/policy.json"]) {
    const text = await readFile(place, "utf8").catch(() => null);
    // The operator has written it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    if (text !== null) return JSON.parse(text) as Policy;
  }
  return ANY;
}

/** As much as a step of any build gets. */
const MEMORY_BYTES = Math.floor(totalmem() * 0.75);
const IMAGE_ID = /^(?:sha256:)?[0-9a-f]{64}$/;

type LayersWish = Extract<ImageWish, { kind: "layers" }>;

/** The steps of a build, until they become layers. */
type Steps = Record<CommandKind, readonly string[]> & { requirements: Requirements | null };

type Recipe = {
  readonly context: string;
  readonly dockerfile: string;
  readonly python: string | null;
  readonly args: readonly string[];
};

/** Builds an app as a container image: by its own Dockerfile, or by one whose lines are the steps of every build. */
export async function buildInImage(
  wish: ImageWish,
  site: BuildSite,
  carryOut: BuildSteps,
): Promise<PreparedBuild> {
  if (wish.kind === "layers") return await carryOut(new ImageTarget(wish, site), site);
  await checkSyntaxForImage(site.python, site);
  return await makeImage(wish, await written(wish.file, site), site);
}

/** Collects the steps, which become layers that the tool caches. */
class ImageTarget implements BuildTarget {
  readonly #wish: LayersWish;
  readonly #site: BuildSite;
  readonly #steps: Steps = { pre_build_commands: [], shell_commands: [], requirements: null };

  constructor(wish: LayersWish, site: BuildSite) {
    this.#wish = wish;
    this.#site = site;
  }

  async checkSyntax(): Promise<void> {
    await checkSyntaxForImage(this.#site.python, this.#site);
  }

  /** An image is never shared. */
  async makeOwn(): Promise<void> {}

  async runCommands(kind: CommandKind, commands: readonly BuildCommand[]): Promise<void> {
    this.#steps[kind] = commands.map(({ text }) => text);
  }

  async install(requirements: Requirements): Promise<void> {
    this.#steps.requirements = requirements;
  }

  /** The image's own Python compiles nothing; its commands may still write `main.py`. */
  async finish(): Promise<void> {}

  async keep(): Promise<PreparedBuild> {
    return await makeImage(this.#wish, await layered(this.#wish, this.#steps, this.#site), this.#site);
  }
}

/** Builds an image, and gives the environment that stands for it. */
async function makeImage(wish: ImageWish, recipe: Recipe, site: BuildSite): Promise<PreparedBuild> {
  const { containers, tool } = wish;
  const environment = await ownStandIn(site, async (folder) => {
    const packagesBy = wish.kind === "dockerfile" ? "dockerfile" : "apt";
    const id = await build(containers, tool, recipe, path.basename(folder), { ...site, packagesBy });
    await writeImageRecord(folder, { id, projectId: site.projectId, python: recipe.python });
  });
  return { environment, python: null };
}

async function written(dockerfile: string, site: BuildSite): Promise<Recipe> {
  warnOfIgnored(site);
  const text = await readBundleText(site.bundleDir, dockerfile);
  if (text === null) throw new BuildError("dockerfile_path: that is not a file");
  // As `Dockerfile.in`, podman would have it include any file of the host.
  const copy = path.join(site.asideDir, "Dockerfile");
  await writeFile(copy, text);
  return { context: site.bundleDir, dockerfile: copy, python: null, args: [] };
}

/** A Dockerfile of ours, for an app that names a base image or system packages. */
async function layered({ base, apt }: LayersWish, steps: Steps, site: BuildSite): Promise<Recipe> {
  const { pre_build_commands: before, shell_commands: after, requirements } = steps;
  const { bundleDir, asideDir, user, host } = site;
  const context = path.dirname(bundleDir);
  const listed = path.join(asideDir, "requirements.txt");
  const pipSettings = path.join(asideDir, "pip.conf");
  if (requirements) {
    await writeFile(listed, requirementsText(requirements, await realpath(bundleDir)));
    await writeFile(pipSettings, await pipSettingsText(host), { mode: 0o600 });
  }
  const layers = {
    base,
    apt,
    before,
    after,
    requirements: requirements && path.relative(context, listed),
    needsApp: requirements !== null && requirements.locals.length + requirements.links.length > 0,
    bundle: path.basename(bundleDir),
    user,
  };
  const dockerfile = path.join(asideDir, "Dockerfile");
  await writeFile(dockerfile, dockerfileFor(layers));
  // Not as an argument: that would stay in the image, with the password of the index.
  const args = requirements ? ["--secret", `id=pip,src=${pipSettings}`] : [];
  return { context, dockerfile, python: site.config.customRuntime === null ? IMAGE_PYTHON : null, args };
}

async function build(
  containers: Containers,
  tool: ContainerTool,
  { context, dockerfile, args }: Recipe,
  environment: string,
  site: BuildSite,
): Promise<string> {
  const { asideDir, projectId, python, signal, say } = site;
  const idFile = path.join(asideDir, "image-id");
  const options = ["--file", dockerfile, "--iidfile", idFile, "--label", containers.label];
  options.push("--label", `${PROJECT_LABEL}=${projectId}`, "--label", `${ENVIRONMENT_LABEL}=${environment}`);
  if (tool.kind === "podman") {
    const policy = path.join(asideDir, "policy.json");
    await writeFile(policy, JSON.stringify(await registriesOnly(site.host)));
    options.push("--pull=missing", "--signature-policy", policy, ...ulimits());
  }
  if (!tool.isRootless) options.push("--memory", String(MEMORY_BYTES));
  say(`building the image with ${tool.kind} ${tool.version}…`);
  const startedAt = performance.now();
  const tools = new MissingTools();
  const program = {
    program: tool.program,
    args: [...(await containers.before(tool, projectId)), "build", ...options, ...args, context],
    cwd: context,
    env: { ...containers.env, ...(await authVariables(site)) },
    // The tool prints its progress on stderr.
    onLine: (text: string) => {
      tools.take(text);
      say(text);
    },
    walls: null,
    held: null,
  };
  await containers.whileBuilding(tool, projectId, async () => {
    const { code, lastWords, detail } = await runProgram(python.path, program, signal);
    if (code !== 0)
      throw new BuildError(`the image could not be built: ${lastWords || detail}${await tools.advice(site)}`);
  });
  const id = (await readFile(idFile, "utf8")).trim();
  if (!IMAGE_ID.test(id)) throw new BuildError(`${tool.kind} did not tell which image it has built`);
  say(`image ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return id;
}

/** Where podman, and docker, find what opens registries. */
async function authVariables({ asideDir, registryAuth }: BuildSite): Promise<Record<string, string>> {
  if (!registryAuth) return {};
  const folder = path.join(asideDir, "registries");
  await mkdir(folder, { mode: 0o700 });
  await writeFile(path.join(folder, "config.json"), JSON.stringify(registryAuth), { mode: 0o600 });
  return { REGISTRY_AUTH_FILE: path.join(folder, "config.json"), DOCKER_CONFIG: folder };
}

function requirementsText(requirements: Requirements, bundleDir: string): string {
  const { packages, constraints, locals, links, flags } = requirements;
  // As an address: a name may have blanks in it.
  const inside = (fullPath: string): string =>
    pathToFileURL(path.posix.join("/cortex", path.relative(bundleDir, fullPath))).href;
  const lines = [
    ...flags,
    ...links.map(({ fullPath }) => `--find-links ${inside(fullPath)}`),
    ...packages,
    ...locals.map(({ fullPath, after }) => `${inside(fullPath)}${after}`),
  ];
  if (constraints.length > 0)
    throw new BuildError("constraints are not supported in images: name the versions instead");
  return `${lines.join("\n")}\n`;
}

/** Which index the host has chosen; not the folders and certificates of the host, which no image sees. */
async function pipSettingsText(host: NodeJS.ProcessEnv): Promise<string> {
  const { indexUrl, extraIndexUrls, noIndex, trustedHosts } = await readPipSettings(host);
  const lines = ["[global]"];
  if (indexUrl !== null) lines.push(`index-url = ${indexUrl}`);
  if (extraIndexUrls.length > 0) lines.push(`extra-index-url = ${extraIndexUrls.join(" ")}`);
  if (noIndex) lines.push("no-index = true");
  if (trustedHosts.length > 0) lines.push(`trusted-host = ${trustedHosts.join(" ")}`);
  return `${lines.join("\n")}\n`;
}
