import path from "node:path";
import type { ProgramEnd } from "../../../engines/programs/run-program.ts";
import { realpath } from "../../../kit/files.ts";
import type { BuildGround } from "../../../engines/build-seats.ts";
import { environmentElsewhere } from "../build-environment.ts";
import { BuildError } from "../build-error.ts";
import { PROBE, pipInstaller, readProbe } from "../installer.ts";
import type { Installer } from "../installer.ts";
import { install, installerInput } from "../make-environment.ts";
import type { Requirements } from "../requirements.ts";
import { runStep } from "../run-step.ts";
import type { BuildSite } from "../site.ts";

/** The environment that is made in a seat elsewhere. */
export class PackagesElsewhere {
  /** Where it is there. */
  readonly folder: string;
  readonly #ground: BuildGround;
  readonly #site: BuildSite;
  /** It also has the packages of the image that it is made in. */
  readonly #seesImage: boolean;
  #hasTools = false;

  constructor(ground: BuildGround, seesImage: boolean, site: BuildSite) {
    this.folder = path.posix.join(ground.folder, "environment");
    this.#ground = ground;
    this.#seesImage = seesImage;
    this.#site = site;
  }

  /** Makes it empty. `withPip` gives it a pip if that can be had. */
  async create(withPip: boolean): Promise<void> {
    const make = async (options: readonly string[]): Promise<ProgramEnd> => {
      const args = ["-I", "-m", "venv", "--clear", ...options, this.folder];
      return await this.#run(this.#ground.python.path, args);
    };
    const seen = this.#seesImage ? ["--system-site-packages"] : [];
    if (withPip && (await make(seen)).code === 0) {
      this.#hasTools = true;
      return;
    }
    const end = await make([...seen, "--without-pip"]);
    if (end.code === 0) return;
    throw new BuildError(
      `Python ${this.#ground.python.version} of the image cannot create a virtual environment: ${end.lastWords || end.detail}`,
    );
  }

  async install(requirements: Requirements): Promise<void> {
    const { bundleDir, host } = this.#site;
    const installer = await this.#findInstaller();
    const root = await realpath(bundleDir);
    const there = (fullPath: string): string =>
      path.posix.join(this.#ground.folder, "bundle", path.relative(root, fullPath));
    const aside = path.posix.join(this.#ground.folder, "aside");
    const { files, options } = installerInput(requirements, installer, aside, there);
    const env = await environmentElsewhere(host, path.posix.join(this.folder, "bin"), null);
    const { folder } = this;
    await install(
      { folder, requirements, installer, options, env, hasTools: this.#hasTools, files },
      this.#site,
    );
  }

  async #findInstaller(): Promise<Installer> {
    const { python } = this.#ground;
    const lines: string[] = [];
    await this.#run(python.path, ["-I", "-c", PROBE], (text) => lines.push(text));
    const inside = path.posix.join(this.folder, "bin", "python");
    try {
      const found = pipInstaller(readProbe(lines.at(-1) ?? ""), python, inside);
      if (found) return found;
    } catch {
      // It said something else.
    }
    throw new BuildError(
      `Python ${python.version} of the image has neither pip nor ensurepip, which install packages`,
    );
  }

  async #run(
    program: string,
    args: readonly string[],
    onLine: (text: string) => void = () => {},
  ): Promise<ProgramEnd> {
    return await runStep({ program, args, env: {}, onLine }, this.#site);
  }
}
