import type { Catalog } from "../apps/catalog.ts";
import { AppError } from "../model/errors.ts";
import type { Executor } from "../runs/execute.ts";
import type { Store } from "../store/store.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import type { RequestHead } from "./request-head.ts";
import type { RunRoute } from "./route.ts";

export type RunParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly executor: Executor;
  readonly store: Store;
};

type RunRequest = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: RunRoute;
};

/** `/v4/{project}/{app}/runs/{id}/…`: what can be done with a run from outside. Always with a token. */
export class RunHandler {
  readonly #parts: RunParts;

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  async handle({ connection, exchange, head, route }: RunRequest): Promise<void> {
    const { catalog, authenticator } = this.#parts;
    await authenticator.admit(connection, head.authorization, route.projectId);
    const live = catalog.find(route.projectId, route.appName);
    if (!live) throw new AppError("app_not_found");
    if (exchange.request.method !== "POST") {
      throw new AppError("method_not_allowed", { headers: { allow: "POST" } });
    }
    await this.#cancel(live.app.number, route.runId);
    exchange.answerJson(202, { run_id: route.runId });
  }

  async #cancel(appNumber: number, id: string): Promise<void> {
    const { executor, store } = this.#parts;
    const run = executor.find(id);
    if (run && run.request.target.appNumber === appNumber) run.cancel();
    else if (executor.hasEnded(appNumber, id) || (await store.runs.find({ appNumber, id }))) {
      throw new AppError("run_finished");
    } else throw new AppError("run_not_found");
  }
}
