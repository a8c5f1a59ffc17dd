import { Command, MILLRACE, run, scratchDirectory, testProgram } from "../../support/command-line.ts";
import type { TestService } from "../../support/service.ts";

export type Ran = { readonly code: number | string; readonly stdout: string; readonly stderr: string };

/** The real command line as somebody uses it who has set the environment for a service, in a folder of their own. */
export class Client {
  readonly cwd = scratchDirectory();
  readonly env: Record<string, string>;

  constructor(test: TestService | null, env: Record<string, string> = {}) {
    const known = test && {
      MILLRACE_URL: test.service.baseUrl,
      MILLRACE_API_URL: test.service.apiUrl,
      MILLRACE_TOKEN: test.service.owner.token,
    };
    this.env = { XDG_CONFIG_HOME: `${this.cwd}/config`, ...known, ...env };
  }

  async run(...args: string[]): Promise<Ran> {
    return await run(MILLRACE, args, this);
  }

  /** Runs many, one after the other in one process (`many-commands.ts`). */
  async runAll(commands: readonly (readonly string[])[]): Promise<Ran[]> {
    const lines = commands.map((args) => JSON.stringify({ args, env: this.env }));
    const program = `exec ${process.execPath} ${testProgram("many-commands")}`;
    const env = { INPUT: `${lines.join("\n")}\n` };
    const { code, stdout, stderr } = await run("sh", ["-c", `printf %s "$INPUT" | ${program}`], {
      cwd: this.cwd,
      env,
    });
    if (code !== 0 || stderr !== "") throw new Error(`the commands ended with ${code}: ${stderr}`);
    return stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Ran);
  }

  /** Runs it with something piped in. */
  async pipe(input: string, ...args: string[]): Promise<Ran> {
    const env = { ...this.env, INPUT: input };
    return await run("sh", ["-c", 'printf %s "$INPUT" | "$@"', "sh", MILLRACE, ...args], {
      cwd: this.cwd,
      env,
    });
  }

  /** Runs it and expects that it says nothing but its result. */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    if (code !== 0 || stderr !== "")
      throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  /** The one document it prints with `--json`. */
  // oxlint-disable-next-line no-explicit-any
  async json(...args: string[]): Promise<any> {
    const stdout = await this.ok(...args, "--json");
    if (stdout.trimEnd().includes("\n")) throw new Error(`more than one document: ${stdout}`);
    return JSON.parse(stdout);
  }

  /** Begins it; it is ended when the test is over. */
  start(...args: string[]): Command {
    return new Command(MILLRACE, args, this);
  }
}
