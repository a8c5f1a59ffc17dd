import { setTimeout as pause } from "node:timers/promises";
import { zipOf } from "../support/zip.ts";
import type { Installation } from "../support/cluster/cluster.ts";
import { echoApp } from "./apps.ts";
import type { Balancer, Sent } from "./balancer.ts";

/** What became of a deploy or a rollback: nothing that was wrong, or the first answer that was. */
export type Changed = { readonly buildId: string; readonly wrong: Sent | null; readonly status: string };

const LOOK_MS = 50;

/** Deploys and rolls back through whichever node, each step through another. */
export class Deploys {
  readonly #balancer: Balancer;
  readonly #project: Installation;

  constructor(balancer: Balancer, project: Installation) {
    this.#balancer = balancer;
    this.#project = project;
  }

  /** Deploys that version of the echo app, and waits until the build has ended. */
  async deploy(app: string, version: number): Promise<Changed> {
    const begun = await this.#post("/apps", { name: app });
    if (begun.status !== 200) return { buildId: "", wrong: begun, status: "not begun" };
    const { buildId, uploadUrl } = JSON.parse(begun.text) as { buildId: string; uploadUrl: string };
    const { pathname, search } = new URL(uploadUrl);
    const body = await zipOf(echoApp(version));
    const put = await this.#balancer.send({ of: "base", path: pathname + search, method: "PUT", body });
    if (put.status !== 200) return { buildId, wrong: put, status: "not uploaded" };
    for (;;) {
      const path = this.#path(`/apps/${this.#project.projectId}-${app}/builds/${buildId}`);
      const looked = await this.#balancer.send({ of: "base", path });
      const { status } =
        looked.status === 200 ? (JSON.parse(looked.text) as { status: string }) : { status: "" };
      if (status === "success") return { buildId, wrong: null, status };
      if (looked.status !== 200) return { buildId, wrong: looked, status };
      if (/failure|timeout|cancelled/.test(status)) return { buildId, wrong: looked, status };
      await pause(LOOK_MS);
    }
  }

  async rollBack(app: string, buildId: string): Promise<Changed> {
    const sent = await this.#post(`/apps/${this.#project.projectId}-${app}/rollback`, { buildId });
    return { buildId, wrong: sent.status === 200 ? null : sent, status: String(sent.status) };
  }

  async #post(path: string, body: object): Promise<Sent> {
    return await this.#balancer.send({
      of: "base",
      path: this.#path(path),
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  #path(rest: string): string {
    return `/v2/projects/${this.#project.projectId}${rest}`;
  }
}
