import { readFileSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll } from "vitest";
import { winnerOf } from "../../../src/nodes/rendezvous.ts";
import { testDatabases } from "../../support/databases.ts";
import {
  type TestApp,
  type TestService,
  type TestServiceOptions,
  WITHOUT_WALLS,
} from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";

/** Two services of one installation in this process: one Postgres, one folder for blobs, two data directories. */
export class Pair {
  readonly #services: readonly [() => TestService, () => TestService];

  constructor(services: readonly [() => TestService, () => TestService]) {
    this.#services = services;
  }

  get first(): TestService {
    return this.#services[0]();
  }

  get second(): TestService {
    return this.#services[1]();
  }

  /** Who has the app, and who has not; it stays so. */
  async sides(name: string): Promise<{ readonly owner: TestService; readonly other: TestService }> {
    const { store, owner: installer } = this.first.service;
    let ownerId: string | null = null;
    await until(`${name} is where it belongs`, async () => {
      const [place] = await store.appOwners.find([{ projectId: installer.projectId, name }]);
      ownerId = place?.owner ?? null;
      const { living } = await store.nodes.list();
      return place !== undefined && winnerOf(place.appNumber, living)?.id === ownerId;
    });
    return nodeId(this.first) === ownerId
      ? { owner: this.first, other: this.second }
      : { owner: this.second, other: this.first };
  }
}

/** The pair for all tests of a file; the apps are deployed through the first. Both have the flags. */
export function pair(
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
  options: TestServiceOptions = {},
): Pair {
  const databases = testDatabases();
  let shared: Record<string, unknown> = {};
  let folder = "";
  const first = sharedService(
    apps,
    async () => {
      const { databaseUrl } = await databases.fresh("postgres");
      folder = await mkdtemp(path.join(tmpdir(), "millrace-blobs-"));
      // However busy the machine is, a node that stops has the time to hand its apps over.
      shared = { ...WITHOUT_WALLS, databaseUrl, blobs: folder, shutdownGrace: "10m", ...flags };
      return shared;
    },
    options,
  );
  const second = sharedService(
    {},
    async () => ({
      ...shared,
      masterKeyFile: path.join(first().settings.dataDir, "master.key"),
    }),
    options,
  );
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return new Pair([first, second]);
}

/** The id of a service among the nodes. */
function nodeId({ settings: { dataDir } }: TestService): string {
  const { owners } = JSON.parse(readFileSync(path.join(dataDir, "owners.json"), "utf8")) as {
    owners: string[];
  };
  return owners.at(-1) ?? "";
}
