import { expect } from "vitest";
import { DeployClient } from "./deploy-client.ts";
import type { JudgedCalls } from "./judged-calls.ts";
import type { TestService } from "./service.ts";
import { until } from "./until.ts";
import { zipOf } from "./zip.ts";

const APP = "deployed";
const UNFINISHED = new Set(["pending", "building", "initializing"]);

/** Deploys one version after the other while the storage fails; what was taken has to come to an end. */
export class FaultyDeploys {
  /** How deploys ended, and how many were refused. */
  readonly became = new Map<string, number>();
  /** Builds whose upload was answered 200. */
  readonly #taken: string[] = [];
  readonly #test: TestService;
  readonly #calls: JudgedCalls;
  readonly #client: DeployClient;

  constructor(test: TestService, calls: JudgedCalls) {
    const { baseUrl, owner } = test.service;
    this.#test = test;
    this.#calls = calls;
    this.#client = new DeployClient({ ...owner, baseUrl }, APP);
  }

  async run(count: number): Promise<void> {
    for (let version = 1; version <= count; version++) {
      const zip = await zipOf({ "main.py": mainOf(version) });
      try {
        const begun = await this.#client.begin();
        const status = await this.#client.put(begun, zip);
        if (status === 200) this.#taken.push(begun.buildId);
        else if (status === 503) this.#count("refused");
        else this.#calls.fault("an upload", status);
        if (status === 200) await this.#client.ended(begun.buildId);
      } catch (error) {
        // What cannot be asked now is asked when all is well again.
        if (!/\b503\b/.test(String(error))) this.#calls.fault("a deploy", String(error));
      }
    }
  }

  /** Each build that was taken has ended, and the next one serves. */
  async expectAllEnded(passTime: () => void): Promise<void> {
    for (const id of this.#taken) {
      let status = "";
      await until(`the build ${id} ends`, async () => {
        passTime();
        status = await this.#client.status(id);
        return !UNFINISHED.has(status);
      });
      this.#count(status);
    }
    const { status } = await this.#client.deploy(await zipOf({ "main.py": mainOf(0) }));
    expect(status).toBe("success");
    expect((await this.#test.call(APP)).json).toMatchObject({ result: 0 });
  }

  #count(what: string): void {
    this.became.set(what, (this.became.get(what) ?? 0) + 1);
  }
}

function mainOf(version: number): string {
  return `def run():\n    return ${version}\n`;
}
