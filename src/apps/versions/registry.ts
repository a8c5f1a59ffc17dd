import type { App } from "../../model/app.ts";
import type { Traffic } from "./traffic.ts";

/** The traffic of every app that takes calls. */
export class Registry {
  /** By project, then by name: a key made of both would be put together anew for every call. */
  readonly #byName = new Map<string, Map<string, Traffic>>();
  /** By number, for those who know no more of it. */
  readonly #byNumber = new Map<number, Traffic>();

  find(projectId: string, appName: string): Traffic | undefined {
    return this.#byName.get(projectId)?.get(appName);
  }

  byNumber(appNumber: number): Traffic | undefined {
    return this.#byNumber.get(appNumber);
  }

  /** In no order. */
  all(): IterableIterator<Traffic> {
    return this.#byNumber.values();
  }

  add({ number, projectId, name }: App, traffic: Traffic): void {
    const project = this.#byName.get(projectId) ?? new Map<string, Traffic>();
    this.#byName.set(projectId, project.set(name, traffic));
    this.#byNumber.set(number, traffic);
  }

  /** Nobody finds it any more. */
  remove({ number, projectId, name }: App): Traffic | undefined {
    const traffic = this.#byNumber.get(number);
    this.#byNumber.delete(number);
    const project = this.#byName.get(projectId);
    // A new app may have the name by now.
    if (project && project.get(name) === traffic) project.delete(name);
    return traffic;
  }
}
