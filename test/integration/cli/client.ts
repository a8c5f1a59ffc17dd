import { Command, MILLRACE, run, scratchDirectory } from "../../support/command-line.ts";
import { runKept } from "../../support/kept-commands.ts";
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

  /** Runs it in a process that is kept for others: what it says and does is the subject, not how it ends. */
  async run(...args: string[]): Promise<Ran> {
    const { cwd, env } = this;
    return await runKept({ args, env, cwd });
  }

  /** Runs it in a process of its own, which has to end by itself. */
  async runAlone(...args: string[]): Promise<Ran> {
    return await run(MILLRACE, args, this);
  }

  /** Runs many, one after the other. */
  async runAll(commands: readonly (readonly string[])[]): Promise<Ran[]> {
    const ran: Ran[] = [];
    for (const args of commands) ran.push(await this.run(...args));
    return ran;
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
