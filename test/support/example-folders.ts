import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { MILLRACE } from "./command-line.ts";
import { commandsOf, tryCommand } from "./document-commands.ts";
import type { TestService } from "./service.ts";
import { REPOSITORY } from "./source-files.ts";

/** A folder for what a reader of a README does: it has the command line, and examples as they are or prepared. */
export class ReaderHome {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    symlinkSync(MILLRACE, path.join(folder, "millrace"));
    mkdirSync(path.join(folder, "examples"));
  }

  /** Puts an example there; gives its folder. */
  asItIs(name: string): string {
    const folder = path.join(this.folder, "examples", name);
    cpSync(path.join(REPOSITORY, "examples", name), folder, { recursive: true });
    return folder;
  }

  /** The same, with further files, and without packages that the build would have to fetch. */
  withoutPackages(name: string, files: Readonly<Record<string, string>> = {}): string {
    const folder = this.asItIs(name);
    for (const [file, text] of Object.entries(files)) writeFileSync(path.join(folder, file), text);
    const toml = path.join(folder, "millrace.toml");
    writeFileSync(toml, readFileSync(toml, "utf8").replace(/^\[dependencies\.pip\][^]*$/m, ""));
    return folder;
  }

  /** Runs the commands of an example's README, each as `change` has it; gives what each printed. */
  async tryReadme(
    name: string,
    { service }: TestService,
    change = (command: string): string => command,
  ): Promise<string[]> {
    const env = {
      PATH: `${this.folder}:${process.env["PATH"]}`,
      XDG_CONFIG_HOME: path.join(this.folder, "config"),
      MILLRACE_URL: service.baseUrl,
      MILLRACE_API_URL: service.apiUrl,
      MILLRACE_TOKEN: service.owner.token,
    };
    const printed: string[] = [];
    for (const command of commandsOf(`examples/${name}/README.md`)) {
      printed.push(await tryCommand(change(command), { cwd: this.folder, env }));
    }
    return printed;
  }
}
