import { hostPython } from "../../host/host-pythons.ts";
import { pythonWish } from "../../model/app-config.ts";
import { BuildError, type BuildInput, type BuildSite } from "./site.ts";
import { hostEnvironment } from "./build-environment.ts";
import { atSite } from "./build.ts";
import { choosePython } from "./choose-python.ts";
import { readCommands } from "./commands.ts";
import { checkSyntax, checkSyntaxForImage, requireMain } from "./compile-bundle.ts";
import { checkRemote } from "./remote/check-remote.ts";
import { checkHost } from "./host-fit.ts";
import type { ImageWish } from "./images/wanted-image.ts";
import { findUv } from "./installer.ts";
import { unknownPackages } from "./known-packages.ts";
import { readRequirements, withoutPassword } from "./requirements.ts";

/** What a build would do, and why it would fail. */
export type Inspection = { readonly plan: readonly string[]; readonly problems: readonly string[] };

/** Checks what a build checks before its first step, and asks an index for its packages. Builds and keeps nothing. */
export async function inspectBuild(input: BuildInput): Promise<Inspection> {
  return await atSite(input, async (site) => {
    const inspection = new Inspecting(site);
    await inspection.run();
    return inspection;
  });
}

class Inspecting implements Inspection {
  readonly plan: string[] = [];
  readonly problems: string[] = [];
  readonly #site: BuildSite;

  constructor(site: BuildSite) {
    this.#site = site;
  }

  async run(): Promise<void> {
    const site = this.#site;
    const { hardware, scaling, customRuntime } = site.config;
    if (await this.#place()) await this.#judge(() => checkSyntaxForImage(site.python, site));
    else await this.#python();
    await this.#packages();
    for (const kind of ["pre_build_commands", "shell_commands"] as const) {
      const commands = await readCommands(kind, site);
      this.plan.push(...commands.map(({ text }) => `run of ${kind}: ${text}`));
    }
    const replicas = `${scaling.minReplicas} to ${scaling.maxReplicas} replicas`;
    this.plan.push(`run ${replicas}, each with ${hardware.cpu} cores and ${hardware.memoryGb} GB`);
    if (customRuntime === null) await this.#judge(() => requireMain(site.bundleDir));
  }

  /** Where it would run; gives whether that is an image, whose Python is not known. */
  async #place(): Promise<boolean> {
    const { remote } = this.#site;
    if (remote) {
      const wanted = await this.#judge(() => checkRemote(remote.seats.images, this.#site));
      const image = wanted?.image ?? (wanted?.plan ? "an image that is built for it" : null);
      this.plan.push(image === null ? "run in the worker image of the cluster" : `run in ${image}`);
      return true;
    }
    const image = await this.#judge(() => checkHost(this.#site));
    this.plan.push(image ? imageText(image) : "run as a process of this host");
    return image !== null;
  }

  async #python(): Promise<void> {
    const { config, python, host } = this.#site;
    const wish = pythonWish(config.deployment);
    if (wish !== null && !(await hostPython(wish.version, python, host))) {
      const uv = await findUv(host["PATH"] ?? "", hostEnvironment(this.#site));
      if (uv !== null) return void this.plan.push(`fetch Python ${wish.version} with uv`);
    }
    // Without uv nothing is fetched: it only tells which one a build would take.
    const chosen = await this.#judge(() => choosePython(this.#site));
    if (!chosen) return;
    this.plan.push(`use Python ${chosen.version} (${chosen.path})`);
    await this.#judge(() => checkSyntax(chosen.path, this.#site));
  }

  async #packages(): Promise<void> {
    const requirements = await this.#judge(() => readRequirements(this.#site));
    if (!requirements) return;
    const { packages, locals, source } = requirements;
    const names = [...packages.map(withoutPassword), ...locals.map(({ name }) => name)];
    this.plan.push(`install from ${source}: ${names.join(", ")}`);
    const { unknown, unsure } = await unknownPackages(requirements, this.#site);
    for (const name of unknown)
      this.problems.push(`${source}: the package index has no ${name}; check its spelling`);
    if (unsure.length > 0)
      this.#site.say(`warning: could not ask the package index for ${unsure.join(", ")}`, "stderr");
  }

  /** The result of a check; null if it fails, which adds to the problems. */
  async #judge<Found>(check: () => Found | Promise<Found>): Promise<Found | null> {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof BuildError)) throw error;
      this.problems.push(...error.problems);
      return null;
    }
  }
}

function imageText(image: ImageWish): string {
  const { kind: tool } = image.tool;
  if (image.kind === "dockerfile") return `build the Dockerfile with ${tool}, and run in that image`;
  const apt = image.apt.length === 0 ? "" : ` with ${image.apt.join(", ")}`;
  return `build an image from ${image.base}${apt} with ${tool}, and run in it`;
}
