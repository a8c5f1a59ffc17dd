import { UNFINISHED } from "../../../src/model/run.ts";
import type { Answer, TestService } from "../service.ts";
import { until } from "../until.ts";

/** Callers of one app that never pause, and runs that nobody waits for. */
export class SteadyLoad {
  /** How many sync calls were answered with a result. */
  answered = 0;
  /** The answers to all others. */
  readonly failures: Pick<Answer, "status" | "text">[] = [];
  /** Ids of runs that were accepted. */
  readonly accepted: string[] = [];
  readonly #on: TestService;
  readonly #app: string;
  readonly #body: object;
  readonly #callers: Promise<void>[];
  #isOver = false;

  constructor(on: TestService, app: string, body: object, callers: number) {
    this.#on = on;
    this.#app = app;
    this.#body = body;
    this.#callers = Array.from({ length: callers }, () => this.#call());
  }

  /** Has runs accepted, one after the other. */
  async submit(count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const { status, json, text } = await this.#on.call(this.#app, this.#body, { suffix: "?async=true" });
      if (status !== 202) throw new Error(`a run was not accepted: ${status} ${text}`);
      this.accepted.push(json.run_id as string);
    }
  }

  /** Waits until that many more calls were answered. */
  async more(count: number): Promise<void> {
    const enough = this.answered + count;
    await until(`${count} more calls are answered`, () => this.answered >= enough);
  }

  /** Ends the calls, waits until every run that was accepted has ended, and gives how they ended. */
  async end(): Promise<string[]> {
    this.#isOver = true;
    await Promise.all(this.#callers);
    const ends: string[] = [];
    for (const id of this.accepted) {
      let status = "";
      await until(`the run ${id} has ended`, async () => {
        status = (await this.#on.ofRun(this.#app, id)).json.status as string;
        return !UNFINISHED.some((state) => state === status);
      });
      ends.push(status);
    }
    return ends;
  }

  async #call(): Promise<void> {
    while (!this.#isOver) {
      const { status, text } = await this.#on.call(this.#app, this.#body);
      if (status === 200) this.answered += 1;
      else this.failures.push({ status, text });
    }
  }
}
